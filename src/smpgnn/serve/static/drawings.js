// Drawings of molecules, asked for when they come into view, a few at a time.

export class Drawings {
  #api; #most; #fail; #waiting = []; #busy = false; #known = new Map(); #watch;

  constructor(api, most, fail) {
    this.#api = api;
    this.#most = Math.min(most, 10);
    this.#fail = fail;
    this.#watch = new IntersectionObserver((entries) => {
      for (const { isIntersecting, target } of entries) {
        if (!isIntersecting) continue;
        this.#watch.unobserve(target);
        this.#waiting.push(target.asked);
      }
      this.#work();
    }, { rootMargin: "400px" });
  }

  /** An image that is drawn when it is near the window. */
  place(smiles, descriptors, score) {
    const image = document.createElement("img");
    image.className = "drawing";
    image.alt = `Structure of ${smiles}, being drawn`;
    image.src = "static/blank.svg";
    const key = JSON.stringify([smiles, descriptors, score]);
    image.asked = { image, smiles, descriptors, score, key };
    if (this.#known.has(key)) this.#fill(image, this.#known.get(key));
    else this.#watch.observe(image);
    return image;
  }

  /** Drop what is not drawn yet. */
  forget() {
    this.#watch.disconnect();
    this.#waiting = [];
    this.#known.clear();
  }

  async #work() {
    if (this.#busy) return;
    this.#busy = true;
    while (this.#waiting.length) {
      const { score } = this.#waiting[0];
      const part = this.#waiting.filter((one) => one.score === score).slice(0, this.#most);
      this.#waiting = this.#waiting.filter((one) => !part.includes(one));
      try {
        await this.#draw(part, score);
      } catch (error) {
        if (error.status !== 503) {
          this.#fail(error);
          for (const { image } of part) image.alt = image.alt.replace(", being drawn", "");
          continue;
        }
        this.#waiting.unshift(...part);
        await new Promise((done) => setTimeout(done, 1000 * (error.seconds || 1)));
      }
    }
    this.#busy = false;
  }

  async #draw(part, score) {
    const names = Object.keys(part[0].descriptors);
    const columns = names.map((name) => [name, part.map((one) => one.descriptors[name])]);
    const smiles = part.map((one) => one.smiles);
    const { rows } = await this.#api.explain(smiles, Object.fromEntries(columns), score);
    part.forEach(({ image, key }, number) => {
      this.#known.set(key, rows[number]);
      this.#fill(image, rows[number]);
    });
  }

  #fill(image, row) {
    if (!row.drawing) {
      image.alt = `No drawing of ${row.smiles}: ${row.error ?? "it has too many atoms"}`;
      return image.removeAttribute("src");
    }
    let strongest = 0;
    row.atoms.forEach(({ contribution }, number) => {
      if (Math.abs(contribution) > Math.abs(row.atoms[strongest].contribution)) strongest = number;
    });
    const { element, contribution } = row.atoms[strongest];
    const sign = contribution < 0 ? "−" : "+", value = Math.abs(contribution).toPrecision(2);
    image.alt = `Structure of ${row.smiles}; largest contribution: ${sign}${value}, `
      + `atom ${strongest + 1} (${element})`;
    image.title = `largest contribution: ${sign}${value}, atom ${strongest + 1} (${element})`;
    image.src = `data:image/svg+xml,${encodeURIComponent(row.drawing)}`;
  }
}
