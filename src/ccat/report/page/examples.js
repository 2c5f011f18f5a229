// The gallery of worst adversarial examples, and the list of all attacked images.

function showGallery() {
  if (!byId("gallery")) return;
  const run = data.runs[state.run];
  const kept = run.gallery[state.threat.key] || [];
  byId("gallery-part").hidden = !kept.length;
  byId("gallery").replaceChildren(...kept.map((one) => card(run, one)));
}
function card(run, one) {
  const images = Object.entries(one.images).map(([name, index]) =>
    element("img", { src: data.arrays[index], alt: `${name} ${one.row}` }));
  const what = one.label === null ? `noise ${one.row}`
    : `image ${one.row}, a ${className(one.label)}`;
  const found = array(run.attacked[state.threat.key].by)[one.row] > 0;
  const answer = ([predicted, score]) => `${className(predicted)} at ${score}`;
  const answers = [
    ...(one.answer ? [answer(one.answer)] : []),
    found ? `${answer(one.attackedAnswer)} %` : "the image itself is the worst",
  ].join(" → ");
  const made = element(
    "div", { className: "card" },
    element("div", { className: "images" }, ...images),
    element("div", { textContent: what }),
    element("div", { className: "answers", textContent: answers }),
    element("div", {}, outcome(run, one.row)),
  );
  made.dataset.row = one.row;
  return made;
}
function outcome(run, row) {
  const [textContent, kind] = verdict(run, state.threat, row);
  return element("span", { className: `outcome ${kind}`, textContent });
}
function judgeGallery() { // after the slider has moved: the pictures stay
  const run = data.runs[state.run];
  for (const made of byId("gallery") ? byId("gallery").children : []) {
    made.querySelector(".outcome").replaceWith(outcome(run, Number(made.dataset.row)));
  }
}

// Each column has a name, the class of its cells, and how its values are shown.
const namedClass = (value) => (value === null ? "–" : className(value));
const scored = (value) => (value === null ? "–" : percent(value));
const COLUMNS = [
  ["image", "n", String],
  ["label", "n", namedClass],
  ["clean answer", "n", namedClass],
  ["clean confidence", "n", scored],
  ["attacked answer", "n", namedClass],
  ["confidence", "n", scored],
  ["outcome", "outcome", String],
  ["attack", "", String],
];
const OUTCOME = 6;
const THROUGH = ["got through", "gets rejected"]; // what an attacker wants
let sorting = [0, 1], shownRows = 100;

function rowsOf(run) {
  const attacked = run.attacked[state.threat.key];
  if (!attacked) return [];
  const { noise } = state.threat, labels = array(run.labels);
  const [before, after] = [attacked.before, attacked.after].map(({ predicted, score }) => (
    { predicted: array(predicted), score: array(score) }));
  return Array.from(array(attacked.by), (attempt, n) => [
    n,
    ...(noise ? [null, null, null] : [labels[n], before.predicted[n], before.score[n]]),
    after.predicted[n],
    after.score[n],
    verdict(run, state.threat, n)[0],
    attempt === 0 ? "none, the image itself" : run.attempts[attempt - 1],
  ]);
}
function showExamples() {
  const run = data.runs[state.run];
  const words = byId("examples-filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const texts = (row) => row.map((value, n) => COLUMNS[n][2](value));
  let rows = rowsOf(run);
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
  const body = rows.slice(0, shownRows).map((row) => element("tr", {}, ...texts(row).map(
    (textContent, n) => element("td", { textContent, className: classOf(n, textContent) }))));
  byId("examples").replaceChildren(
    element("thead", {}, element("tr", {}, ...COLUMNS.map(heading))),
    element("tbody", {}, ...body),
  );
  byId("examples-count").textContent = `${rows.length} images`;
  byId("examples-more").hidden = rows.length <= shownRows;
}
function judgeExamples() { // after the slider has moved: most often only outcomes change
  const chosen = byId("examples-through").checked || byId("examples-filter").value.trim();
  if (chosen || sorting[0] === OUTCOME) return showExamples();
  const run = data.runs[state.run];
  for (const { cells } of byId("examples").tBodies[0].rows) {
    const [text] = verdict(run, state.threat, Number(cells[0].textContent));
    if (cells[OUTCOME].textContent === text) continue;
    cells[OUTCOME].textContent = text;
    cells[OUTCOME].className = classOf(OUTCOME, text);
  }
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
