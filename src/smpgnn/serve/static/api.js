// Requests to the JSON interface.

/** An answer that is an error: its sentence, its status, and when to try again. */
export class Refused extends Error {
  constructor(response, sentence) {
    super(sentence);
    this.status = response.status;
    this.seconds = Number(response.headers.get("Retry-After")) || 0;
  }
}

/** The token comes with the address, as #token=…, and is kept until the tab is closed. */
export class Api {
  constructor() {
    const given = new URLSearchParams(location.hash.slice(1)).get("token");
    if (given) {
      this.token = given;
      history.replaceState(null, "", location.pathname);
    }
  }

  get token() {
    return sessionStorage.getItem("token") ?? "";
  }

  set token(token) {
    sessionStorage.setItem("token", token);
  }

  model() {
    return this.#ask("api/model");
  }

  predict(smiles) {
    return this.#ask("api/predict", "application/json", JSON.stringify({ smiles }));
  }

  table(file, column) {
    const query = new URLSearchParams({ smiles_column: column });
    return this.#ask(`api/predict?${query}`, "text/csv", file);
  }

  explain(smiles, descriptors, score) {
    const body = JSON.stringify({ smiles, descriptors, score });
    return this.#ask("api/explain", "application/json", body);
  }

  async #ask(path, type, body) {
    const headers = { Accept: "application/json" };
    if (type) headers["Content-Type"] = type;
    if (this.token) headers.Authorization = `Bearer ${this.token}`;
    const response = await fetch(path, { method: body ? "POST" : "GET", headers, body });
    if (response.ok) return response.json();
    const answer = await response.json().catch(() => ({}));
    throw new Refused(response, answer.error ?? `The server answered ${response.status}.`);
  }
}
