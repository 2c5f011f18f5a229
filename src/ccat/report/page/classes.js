// Errors class by class: on clean images, and under the threat chosen. Counted, image by image.

const MOST = 20; // classes that are shown at first
let allClasses = false;

function counted(run, { part, whole }) { // by label: how many count in the part, and in the whole
  const labels = array(run.labels), parts = array(part), wholes = array(whole);
  const needed = run.needed[place()], found = new Map();
  for (let n = 0; n < wholes.length; n += 1) {
    if (!found.has(labels[n])) found.set(labels[n], [0, 0]);
    const both = found.get(labels[n]);
    if (parts[n] >= needed) both[0] += 1;
    if (wholes[n] >= needed) both[1] += 1;
  }
  return found;
}
function showClasses() {
  const condition = state.threat, [headline] = condition.rates;
  const columns = data.runs.flatMap((run) => {
    const attacked = condition.noise ? null : run.attacked[condition.key];
    const clean = { run, title: "clean", found: counted(run, run.wrong) };
    return attacked ? [clean, { run, title: condition.title, found: counted(run, attacked) }] : [clean];
  });
  const share = ({ found }, label) => {
    const [part, whole] = found.get(label) || [0, 0];
    return whole ? part / whole : 0;
  };
  const shown = columns.filter(({ title }) => title !== "clean");
  const ranked = shown.length && !condition.rejects ? shown : columns;
  const worst = (label) => Math.max(...ranked.map((column) => share(column, label)));
  let labels = [...new Set(columns.flatMap(({ found }) => [...found.keys()]))].sort((a, b) => a - b);
  const many = labels.length > MOST;
  if (many) labels.sort((a, b) => worst(b) - worst(a) || a - b);
  if (many && !allClasses) labels = labels.slice(0, MOST);
  const of = (column, label) => {
    const [part, whole] = column.found.get(label) || [0, 0], value = share(column, label);
    const bar = element("span", { className: "bar-of" });
    bar.style.width = `${4 * value}rem`;
    bar.style.background = colour(column.run);
    const textContent = whole ? (100 * value).toFixed(1) : "–", title = `${part} of ${whole}`;
    const number = element("span", { className: "value", textContent });
    if (column.title === "clean") return element("td", { title, className: "start" }, number);
    return element(
      "td", { title }, element("span", { className: "track" }, bar), number,
      element("small", { textContent: `${part}/${whole}` }),
    );
  };
  const groups = data.runs.map((run) => {
    const colSpan = columns.filter((column) => column.run === run).length;
    return element("th", { colSpan, scope: "colgroup" }, swatch(run), named(run));
  });
  byId("by-class").replaceChildren(
    element("thead", {},
      element("tr", {}, element("th", { textContent: "" }), ...groups),
      element("tr", {}, element("th", { textContent: "class", scope: "col" }), ...columns.map(
        ({ title }) => element("th", {
          textContent: title, scope: "col", className: title === "clean" ? "start" : "",
        })))),
    element("tbody", {}, ...labels.map((label) => element(
      "tr", {}, element("td", { textContent: className(label) }),
      ...columns.map((column) => of(column, label))))),
  );
  const under = condition.noise ? "" : ` Under ${condition.title}: ${headline.title} = `
    + `${headline.meaning}, of the images of the class that were attacked.`;
  byId("classes-legend").textContent = "In %, at the threshold chosen above, of the images of each "
    + `class. Clean: Err = wrong / accepted.${under}`;
  byId("classes-more").hidden = !many;
  byId("classes-more").textContent = allClasses ? `only the worst ${MOST}` : "all classes";
}
