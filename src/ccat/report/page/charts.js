// Charts over all thresholds: a rate over coverage or τ, ROC curves, histograms of confidences.

const W = 420, H = 280, LEFT = 46, RIGHT = 18, TOP = 10, BOTTOM = 40;
const X = (value) => LEFT + value * (W - LEFT - RIGHT);
const Y = (value) => H - BOTTOM - value * (H - TOP - BOTTOM);
const GRID = Array.from({ length: 201 }, (_, n) => n / 200);
const BINS = 25;

function axes(xLabel, yLabel, top = 1, right = 1) {
  const middle = { x: (X(0) + X(1)) / 2, y: (Y(0) + Y(1)) / 2 };
  const box = { x: X(0), y: Y(1), width: X(1) - X(0), height: Y(0) - Y(1), class: "axis" };
  const label = (x, y, anchor, words, more = {}) =>
    drawn("text", { x, y, "text-anchor": anchor, ...more }, String(words));
  const ticks = [0, 0.25, 0.5, 0.75, 1].flatMap((tick) => [
    label(X(tick), H - BOTTOM + 16, "middle", right * tick),
    label(LEFT - 6, Y(tick) + 4, "end", Math.round(100 * tick * top)),
  ]);
  return [
    drawn("rect", box),
    ...ticks,
    label(middle.x, H - 6, "middle", xLabel),
    label(12, middle.y, "middle", yLabel, { transform: `rotate(-90 12 ${middle.y})` }),
  ];
}
const chart = (label, parts) =>
  drawn("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": label }, ...parts);
function path(points, run) {
  const d = points
    .filter(([x, y]) => !Number.isNaN(x) && !Number.isNaN(y))
    .map(([x, y], n) => `${n ? "L" : "M"}${X(x).toFixed(2)} ${Y(y).toFixed(2)}`)
    .join("");
  const line = { stroke: colour(run), "stroke-width": 2, "stroke-dasharray": dashes(run) };
  return drawn("path", { d, fill: "none", ...line });
}
function band(taus, lower, upper, run) { // between what was found and what is possible
  const points = [...taus.map(lower), ...taus.map(upper).reverse()]
    .filter(([x, y]) => !Number.isNaN(x) && !Number.isNaN(y))
    .map(([x, y]) => `${X(x).toFixed(2)},${Y(y).toFixed(2)}`).join(" ");
  return drawn("polygon", { points, fill: colour(run), "fill-opacity": 0.18, class: "band" });
}
function dot(x, y, run, filled = true) {
  const there = !Number.isNaN(x) && !Number.isNaN(y);
  const look = filled ? { fill: colour(run) }
    : { fill: "none", stroke: colour(run), "stroke-width": 2, class: "ring" };
  return there ? [drawn("circle", { cx: X(x), cy: Y(y), r: filled ? 5 : 7, ...look })] : [];
}
const upright = (x) => {
  const line = { x1: X(x), x2: X(x), y1: Y(0), y2: Y(1), stroke: "currentColor" };
  return drawn("line", { ...line, "stroke-dasharray": "3 3" });
};
const within = (tau) => Math.min(1, Math.max(0, tau));

// What a rate is drawn over: the thresholds of its points, and where they lie.
const OVER = {
  coverage: {
    name: "the share of clean images that is accepted",
    label: "clean coverage in %",
    right: 100,
    taus: (attacked) => every(ascending(attacked.coverage[0]), 300),
    x: (attacked, tau) => share(attacked.coverage, tau),
    caption: "Runs can be compared where they accept as much. A ring marks the threshold chosen "
      + "above.",
  },
  tau: {
    name: "the threshold τ",
    label: "threshold τ",
    right: 1,
    taus: () => GRID,
    x: (attacked, tau) => within(tau),
    caption: "A τ means something else in every run. The line marks the threshold chosen above.",
  },
};
function every(levels, most) { // up to so many of ascending levels, each once, and both ends
  const distinct = [...new Set(levels)];
  const step = Math.max(1, (distinct.length - 1) / (most - 1));
  const count = Math.floor((distinct.length - 1) / step + 1e-9) + 1;
  return Array.from({ length: count }, (_, n) => distinct[Math.round(n * step)]);
}

function showCurves() {
  const condition = conditionOf(byId("curve-threat").value);
  if (!condition) return;
  options(byId("curve-rate"), condition.rates.map((rate) => [rate.name, rate.title]));
  const shown = condition.rates.find((rate) => rate.name === byId("curve-rate").value);
  const runs = data.runs.filter((run) => run.attacked[condition.key]);
  const over = OVER[byId("curve-over").value];
  const curves = axes(over.label, `${shown.title} in %`, 1, over.right);
  const roc = axes("false positive rate in %", "true positive rate in %", 1, 100);
  for (const run of runs) {
    const attacked = run.attacked[condition.key], levels = attacked.rates[shown.name];
    const point = (tau) => [over.x(attacked, tau), share(levels, tau)];
    const own = run.tau === null ? -Infinity : run.tau;
    if (attacked.certified && shown === condition.rates[0]) {
      const above = (tau) => [over.x(attacked, tau), share(attacked.certified, tau)];
      curves.push(band(over.taus(attacked), point, above, run));
    }
    curves.push(path(over.taus(attacked).map(point), run), ...dot(...point(own), run));
    if (chosen !== null && over === OVER.coverage) curves.push(...dot(...point(chosen), run, false));
    if (attacked.roc) {
      const at = (tau) => [share(attacked.roc.x, tau), share(attacked.roc.y, tau)];
      roc.push(path([[0, 0], ...changes(attacked.roc).map(at), [1, 1]], run));
      roc.push(...dot(...at(own), run));
    }
  }
  if (chosen !== null && over === OVER.tau) curves.push(upright(within(chosen)));
  byId("rate-chart").replaceChildren(chart(`${shown.title} over ${over.name}`, curves));
  const proved = shown === condition.rates[0]
    && runs.some((run) => run.attacked[condition.key].certified);
  byId("rate-caption").textContent = `${shown.title} = ${shown.meaning}, over ${over.name}. `
    + (proved ? "A band reaches from what attacks found to what is possible. " : "")
    + over.caption;
  byId("roc-chart").replaceChildren(chart("ROC curve", roc));
  byId("roc-figure").hidden = condition.noise || condition.rejects;
  byId("key").replaceChildren(
    ...runs.map((run) => element("span", { className: "entry" }, swatch(run), run.name)),
  );
  byId("histograms").replaceChildren(...runs.map((run) => histogram(run, condition.key)));
}
function changes(roc) { // up to 300 of the τ at which a point of the ROC curve moves, descending
  const levels = [...new Set([...ascending(roc.x[0]), ...ascending(roc.y[0])])];
  const every = Math.ceil(levels.length / 300);
  return levels.sort((a, b) => b - a).filter((_, n) => n % every === 0);
}
function histogram(run, key) {
  const shares = (scores) => {
    const counts = new Array(BINS).fill(0);
    for (const score of scores) {
      const bin = Math.min(BINS - 1, Math.max(0, Math.floor(score * BINS)));
      counts[bin] += 1 / scores.length;
    }
    return counts;
  };
  const { positives, negatives } = run.attacked[key];
  const good = shares(ascending(positives)), bad = shares(ascending(negatives));
  const highest = Math.max(...good, ...bad) - 1e-9;
  const top = [0.04, 0.08, 0.12, 0.2, 0.4, 0.6, 0.8, 1].find((round) => round >= highest);
  const bar = (height, n, attributes) => drawn("rect", {
    x: X(n / BINS) + 1, width: X(1 / BINS) - X(0) - 2,
    y: Y(height / top), height: Y(0) - Y(height / top), ...attributes,
  });
  const parts = [
    ...axes("confidence", "share in %", top),
    ...bad.map((height, n) => bar(height, n, { fill: colour(run), "fill-opacity": 0.75 })),
    ...good.flatMap((height, n) =>
      (height ? [bar(height, n, { fill: "none", stroke: "currentColor" })] : [])),
    upright(within(tauOf(run))),
  ];
  const box = element("div", { className: "chart" });
  box.append(chart(`confidences of ${run.name}`, parts));
  return element("figure", {}, box, element("figcaption", { textContent: run.name }));
}
