// The page of smpgnn serve: sends molecules to the JSON interface and shows the answers.
import { Drawings } from "./drawings.js";
import { csv, saved } from "./csv.js";
import { Api, Refused } from "./api.js";

const get = (id) => document.getElementById(id);
const api = new Api();
let model, drawings, latest = 0, shown = null;

async function start() {
  say("");
  try {
    model = await api.model();
  } catch (error) {
    if (error.status !== 401) return fail(error);
    if (api.token) fail(error);
    get("about").textContent = "This server needs a token.";
    get("access").hidden = false;
    return get("token").focus();
  }
  get("access").hidden = true;
  document.title = `${model.run} – smpgnn`;
  get("title").textContent = model.run;
  get("about").textContent = about();
  get("notes").replaceChildren(...model.notes.map((note) => element("li", note)));
  if (!model.molecules) return;
  const limits = model.limits, most = limits.molecules.toLocaleString("en");
  get("inputs").hidden = false;
  get("typed").hidden = model.descriptors.length > 0;
  get("smiles-hint").textContent = `At most ${most} molecules. Ctrl+Enter predicts.`;
  get("file-hint").textContent = `At most ${most} rows and ${size(limits.bytes)}.`
    + (model.descriptors.length ? ` Further columns that it needs: ${model.descriptors.join(", ")}.` : "");
  get("column").value = model.smiles_column;
  get("score").replaceChildren(...model.scores.map((name) => new Option(name)));
  get("choice").hidden = model.scores.length < 2;
  get("legend").hidden = !model.scores.length;
  drawings = new Drawings(api, model.limits.explained, fail);
}

function about() {
  const values = model.columns.filter((name) => name.startsWith("predicted_"));
  const names = values.map((name) => name.slice(10)).join(", ");
  const parts = [`A model that predicts ${names} of a ${model.molecules ? "molecule" : "graph"}.`];
  if (model.interval) parts.push(`Intervals contain ${percent(model.interval)} of the values.`);
  if (!model.molecules) parts.push("It takes graphs: use the JSON interface (link below).");
  return parts.join(" ");
}

get("access").addEventListener("submit", (event) => {
  event.preventDefault();
  api.token = get("token").value.trim();
  start();
});

get("typed").addEventListener("submit", (event) => {
  event.preventDefault();
  const lines = get("smiles").value.split("\n").map((line) => line.trim()).filter(Boolean);
  if (!lines.length) return fail(new Error("Type or paste at least one SMILES."));
  predict(() => api.predict(lines), "smiles", "predictions.csv");
});

get("smiles").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) get("typed").requestSubmit();
});

get("uploaded").addEventListener("submit", (event) => {
  event.preventDefault();
  const [file] = get("file").files, column = get("column").value.trim() || model.smiles_column;
  if (!file) return fail(new Error("Choose a CSV file first."));
  if (file.size > model.limits.bytes) {
    const most = size(model.limits.bytes);
    return fail(new Error(`${file.name} is larger than ${most}: split it, or use smpgnn predict.`));
  }
  const name = file.name.replace(/\.[^.]*$/, "");
  predict(() => api.table(file, column), column, `${name}-predictions.csv`);
});

get("download").addEventListener("click", () => {
  saved(csv(shown.answer.columns, shown.answer.rows), shown.file);
});

get("score").addEventListener("change", () => {
  drawings.forget();
  show();
});

async function predict(ask, column, file) {
  const number = ++latest;
  say("Predicting …");
  get("results").hidden = true;
  drawings.forget();
  try {
    const answer = await ask();
    if (number !== latest) return;
    shown = { answer, column, file };
    show();
    const failed = answer.rows.filter((row) => row[name("error")] !== null).length;
    const count = answer.rows.length;
    say(`${count} ${count === 1 ? "row" : "rows"}`
      + (failed ? `, ${failed} of them without a prediction.` : "."));
  } catch (error) {
    if (number === latest) fail(error);
  }
}

/** The name that a column of the model has in the answer. */
function name(column) {
  return shown.answer.predicted[model.columns.indexOf(column)];
}

/** The columns of the table: a head, and the content of the cell of a row. */
function columns() {
  const has = (column) => model.columns.includes(column);
  const found = [];
  const elsewhere = /^(low|high|std|probability)_|^(similarity|nearest|nearest_row|error)$/;
  for (const column of model.columns) {
    if (elsewhere.test(column)) continue;
    const target = column.startsWith("predicted_") ? column.slice(10) : null;
    const shares = target ? probabilities(column, target) : [];
    found.push([target ?? column, (row, cell) => {
      if (row[name(column)] === null) return;
      cell.append(element("span", text(row[name(column)]), "value"));
      for (const [label, share] of shares) {
        cell.append(element("div", `${label}: ${text(row[name(share)], 3)}`, "muted"));
      }
      if (target && has(`std_${target}`) && row[name(`std_${target}`)] !== null) {
        const spread = `members differ by ${text(row[name(`std_${target}`)], 2)}`;
        cell.append(element("div", spread, "muted"));
      }
    }]);
    if (target && has(`low_${target}`)) {
      found.push([`${percent(model.interval)} interval`, (row, cell) => {
        const [low, high] = [`low_${target}`, `high_${target}`].map((end) => row[name(end)]);
        if (low !== null) cell.append(`${text(low, 3)} to ${text(high, 3)}`);
      }]);
    }
  }
  if (model.domain) found.push(["Nearest training molecule", nearest]);
  return found;
}

/** The classes of a target, and the columns of their probabilities, which follow its own. */
function probabilities(column, target) {
  const start = `probability_${target}_`, found = [];
  for (const other of model.columns.slice(model.columns.indexOf(column) + 1)) {
    if (!other.startsWith(start)) break;
    found.push([`probability of ${other.slice(start.length)}`, other]);
  }
  return found;
}

function nearest(row, cell) {
  const similarity = row[name("similarity")], smiles = row[name("nearest")];
  if (similarity === null) return;
  cell.classList.add("small");
  if (!model.descriptors.length) cell.append(drawings.place(smiles, {}, score()));
  const meter = element("meter");
  meter.value = similarity;
  meter.setAttribute("aria-hidden", "true");
  const line = element("div");
  line.append(meter, ` similarity ${similarity.toFixed(2)}`);
  cell.append(line, element("div", smiles, "smiles"));
  cell.append(element("div", `row ${row[name("nearest_row")]} of the training table`, "muted"));
}

function score() {
  return model.scores.length ? get("score").value || model.scores[0] : null;
}

function show() {
  const { answer, column } = shown, others = columns();
  get("what").textContent = score() ?? "";
  get("heads").replaceChildren(...["Row", "Molecule", ...others.map(([head]) => head)].map((head) => {
    const cell = element("th", head);
    cell.scope = "col";
    return cell;
  }));
  const given = answer.columns.filter((one) => one !== column && !answer.predicted.includes(one));
  get("rows").replaceChildren(...answer.rows.map((row, number) => {
    const line = element("tr"), place = element("td", String(number + 1));
    place.dataset.label = "Row";
    line.append(place, molecule(row, column, given));
    for (const [head, fill] of others) {
      const cell = element("td");
      fill(row, cell);
      if (cell.childNodes.length) cell.dataset.label = head;
      line.append(cell);
    }
    return line;
  }));
  get("results").hidden = false;
}

function molecule(row, column, given) {
  const cell = element("td", "", "molecule"), error = row[name("error")];
  if (error === null && score()) {
    const own = model.descriptors.map((one) => [one, Number(row[one])]);
    cell.append(drawings.place(row[column], Object.fromEntries(own), score()));
  }
  cell.append(element("div", row[column] ?? "", "smiles"));
  if (error !== null) cell.append(element("div", `No prediction: ${error}.`, "bad"));
  if (given.length) {
    const more = element("details"), list = element("dl");
    for (const one of given) list.append(element("dt", one), element("dd", row[one] ?? ""));
    more.append(element("summary", "Other columns"), list);
    cell.append(more);
  }
  return cell;
}

function element(kind, content = "", style = "") {
  const made = document.createElement(kind);
  made.textContent = content;
  if (style) made.className = style;
  return made;
}

/** A value as it is shown: numbers have a few digits; the download has all. */
function text(value, digits = 4) {
  if (typeof value !== "number") return value ?? "";
  return String(Number(value.toPrecision(digits))).replace("-", "−");
}

const percent = (share) => `${Number((100 * share).toPrecision(4))}%`;
const size = (bytes) => bytes < 1 << 20 ? `${bytes >> 10} KiB` : `${+(bytes / 2 ** 20).toFixed(1)} MiB`;

function say(sentence) {
  get("error").textContent = "";
  get("status").textContent = sentence;
}

function fail(error) {
  get("status").textContent = "";
  const known = error instanceof Refused || error.constructor === Error;
  const sentence = known ? error.message : "The server cannot be reached: is it still running?";
  get("error").textContent = sentence[0].toUpperCase() + sentence.slice(1);
  if (!known) console.error(error);
}

start();
