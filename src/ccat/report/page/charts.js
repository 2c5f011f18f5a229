// Axes, lines and marks of charts, drawn in the pixels that a box has. Values are tenths of a per
// cent, 0 to 1000.

const MARGIN = { left: 44, right: 14, top: 12, bottom: 42 };

function frame(box, ratio = 0.66) {
  const width = Math.max(240, Math.min(box.clientWidth || 480, 560));
  const height = Math.round(Math.max(200, ratio * width));
  const inner = {
    width: width - MARGIN.left - MARGIN.right, height: height - MARGIN.top - MARGIN.bottom,
  };
  return {
    width, height, inner,
    x: (value) => MARGIN.left + (value / 1000) * inner.width,
    y: (value) => height - MARGIN.bottom - (value / 1000) * inner.height,
  };
}
function label(x, y, anchor, words, more = {}) {
  return drawn("text", { x, y, "text-anchor": anchor, ...more }, String(words));
}
function axes(at, xLabel, yLabel, { top = 100, right = 100 } = {}) {
  const ticks = [0, 250, 500, 750, 1000];
  const middle = { x: (at.x(0) + at.x(1000)) / 2, y: (at.y(0) + at.y(1000)) / 2 };
  return [
    ...ticks.map((tick) => drawn("line", {
      class: tick ? "grid" : "axis", x1: at.x(0), x2: at.x(1000), y1: at.y(tick), y2: at.y(tick),
    })),
    ...ticks.map((tick) => label(at.x(tick), at.y(0) + 18, "middle", (right * tick) / 1000)),
    ...ticks.map((tick) => label(at.x(0) - 8, at.y(tick) + 4, "end", (top * tick) / 1000)),
    label(middle.x, at.height - 4, "middle", xLabel),
    label(11, middle.y, "middle", yLabel, { transform: `rotate(-90 11 ${middle.y})` }),
  ];
}
const chart = (at, title, parts) => drawn("svg", {
  viewBox: `0 0 ${at.width} ${at.height}`, width: at.width, height: at.height,
  role: "img", "aria-label": title,
}, ...parts);

const exists = ([x, y]) => x !== NOTHING && y !== NOTHING;
const spot = (at, [x, y]) => `${at.x(x).toFixed(2)} ${at.y(y).toFixed(2)}`;
function path(at, points, run) {
  const d = points.filter(exists).map((point, n) => (n ? "L" : "M") + spot(at, point)).join("");
  const line = { stroke: colour(run), "stroke-width": 2, "stroke-dasharray": dashes(run) };
  return drawn("path", { d, fill: "none", "stroke-linejoin": "round", ...line });
}
function band(at, lower, upper, run) { // between what was found and what is possible
  const points = [...lower, ...[...upper].reverse()].filter(exists);
  return drawn("polygon", {
    points: points.map((point) => spot(at, point).replace(" ", ",")).join(" "),
    fill: colour(run), "fill-opacity": 0.15, class: "band",
  });
}
function dot(at, [x, y], run, more = {}) {
  if (!exists([x, y])) return [];
  return [drawn("circle", { cx: at.x(x), cy: at.y(y), r: 5, fill: colour(run), class: "dot", ...more })];
}
