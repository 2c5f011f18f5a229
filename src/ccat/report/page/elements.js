// Small helpers for elements of the page.

const byId = (id) => document.getElementById(id);
const on = (id, event, react) => byId(id).addEventListener(event, react);
function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}
function drawn(name, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}
const colour = (run) => `var(--c${run.colour % 6})`;
const dashes = (run) => ["", "7 4", "2 3", "9 3 2 3"][run.dash % 4];
function swatch(run) {
  const line = drawn("line", {
    x1: 0, x2: 28, y1: 7, y2: 7,
    stroke: colour(run), "stroke-width": 3.5, "stroke-dasharray": dashes(run),
  });
  return drawn("svg", { viewBox: "0 0 28 14", class: "swatch", "aria-hidden": "true" }, line);
}
const named = (run) => element("span", { className: "name", textContent: run.name, title: run.name });
function options(select, entries) { // keeps what was chosen, where it still is there
  const before = select.value;
  select.replaceChildren(
    ...entries.map(([value, text]) => element("option", { value, textContent: text })),
  );
  if (entries.some(([value]) => value === before)) select.value = before;
}
