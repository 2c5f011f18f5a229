// The gallery of worst adversarial examples, and the list of all attacked images.

function showGallery() {
  const run = data.runs[Number(byId("gallery-run").value)], key = byId("gallery-threat").value;
  const cards = (run.gallery[key] || []).map((one) => card(run, key, one));
  const textContent = "The perturbations were not kept (or the run was not attacked like this): "
    + "`ccat attack` with --keep worst keeps them.";
  byId("gallery").replaceChildren(...(cards.length ? cards : [element("p", { textContent })]));
}
function card(run, key, one) {
  const images = Object.entries(one.images).map(([name, src]) =>
    element("img", { src, alt: `${name} ${one.row}` }));
  const what = one.label === null ? `noise ${one.row}`
    : `image ${one.row}, a ${className(one.label)}`;
  const found = run.attacked[key].by[one.row] !== NOBODY;
  const answer = ([predicted, score]) => `${className(predicted)} at ${percent(score)} %`;
  const [words, kind] = verdict(run, key, one.row);
  const made = element(
    "div", { className: "card" },
    element("div", { className: "images" }, ...images),
    element("div", { textContent: one.answer ? `${what}: taken for ${answer(one.answer)}` : what }),
    element(
      "div", {},
      found ? `attacked: ${answer(one.attackedAnswer)}, ` : "the image itself is the worst: ",
      element("span", { className: `outcome ${kind}`, textContent: words }),
    ),
  );
  made.dataset.row = one.row;
  return made;
}

// Each column has a name, the class of its cells, and how its values are shown.
const named = (value) => (value === null ? "–" : className(value));
const scored = (value) => (value === null ? "–" : percent(value));
const COLUMNS = [
  ["image", "n", String],
  ["label", "n", named],
  ["clean answer", "n", named],
  ["clean confidence", "n", scored],
  ["attacked answer", "n", named],
  ["confidence", "n", scored],
  ["outcome", "outcome", String],
  ["attack", "", String],
];
const OUTCOME = 6;
const THROUGH = ["got through", "gets rejected"]; // what an attacker wants
let sorting = [0, 1], shown = 100;

function rowsOf(run, key) {
  const attacked = run.attacked[key];
  if (!attacked) return [];
  const { clean, worst, by } = attacked, { noise } = conditionOf(key);
  return Array.from(by, (attempt, n) => [
    n,
    ...(noise ? [null, null, null] : [run.labels[n], clean.predicted[n], clean.score[n]]),
    worst.predicted[n],
    worst.score[n],
    verdict(run, key, n)[0],
    attempt === NOBODY ? "none, the image itself" : run.attempts[attempt],
  ]);
}
function showExamples() {
  const run = data.runs[Number(byId("examples-run").value)];
  const words = byId("examples-filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const texts = (row) => row.map((value, n) => COLUMNS[n][2](value));
  let rows = rowsOf(run, byId("examples-threat").value);
  if (byId("examples-through").checked) {
    rows = rows.filter((row) => THROUGH.includes(row[OUTCOME]));
  }
  if (words.length) {
    rows = rows.filter((row) => {
      const all = texts(row).join(" ").toLowerCase();
      return words.every((word) => all.includes(word));
    });
  }
  const [column, direction] = sorting;
  const order = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
  rows.sort((a, b) => direction * order(a[column], b[column]) || a[0] - b[0]);
  const body = rows.slice(0, shown).map((row) => element("tr", {}, ...texts(row).map(
    (textContent, n) => element("td", { textContent, className: classOf(n, textContent) }))));
  byId("examples").replaceChildren(
    element("thead", {}, element("tr", {}, ...COLUMNS.map(heading))),
    element("tbody", {}, ...body),
  );
  byId("examples-count").textContent = `${rows.length} images`;
  byId("examples-more").hidden = rows.length <= shown;
}
function classOf(column, words) {
  if (column !== OUTCOME) return COLUMNS[column][1];
  return `outcome ${THROUGH.includes(words) ? "through" : "held"}`;
}
function heading([name, kind], n) {
  const [column, direction] = sorting;
  const mine = n === column, up = direction > 0;
  const arrow = mine ? (up ? " ▲" : " ▼") : "";
  const button = element("button", { type: "button", textContent: name + arrow });
  button.addEventListener("click", () => {
    sorting = [n, mine ? -direction : 1];
    showExamples();
  });
  const cell = element("th", { className: kind, scope: "col" }, button);
  cell.setAttribute("aria-sort", mine ? (up ? "ascending" : "descending") : "none");
  return cell;
}
