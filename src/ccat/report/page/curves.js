// The curves under the threat chosen: a rate over the coverage of clean images, ROC, confidences.

const zip = (xs, ys) => Array.from(xs, (x, n) => [x, ys[n]]);
let marks = []; // what the slider moves in charts that are drawn already: functions
const moveMarks = () => marks.forEach((move) => move());
const attackedRuns = () => data.runs.filter((run) => run.attacked[state.threat.key]);

function showCurves() {
  const condition = state.threat, shown = rateOf(condition), runs = attackedRuns();
  const box = byId("rate-chart"), at = frame(box), series = [];
  const parts = axes(at, "clean images accepted (coverage), %", `${shown.title}, %`);
  const dots = drawn("g", {});
  let proved = false;
  for (const run of runs) {
    const attacked = run.attacked[condition.key], { curve } = attacked;
    const x = numbers(curve.coverage), points = zip(x, numbers(curve.rates[shown.name]));
    if (curve.certified && shown === condition.rates[0]) {
      parts.push(band(at, points, zip(x, numbers(curve.certified)), run));
      proved = true;
    }
    parts.push(path(at, points, run));
    series.push({ run, points: [...points].reverse() });
  }
  box.replaceChildren(chart(at, `${shown.title} over coverage`, [...parts, dots]));
  marks = [() => dots.replaceChildren(...runs.flatMap((run) => {
    const { reached, rates } = run.attacked[condition.key];
    return dot(at, [numbers(reached)[place()], estimate(rates[shown.name]).value], run);
  }))];
  readable(box, at, series, ([x, y]) => `${percent(y)} % at ${percent(x)} %`);
  byId("rate-caption").textContent = `${shown.title} = ${shown.meaning}. Runs can be compared where `
    + "they accept as much of the clean images; a dot is where the slider stands. "
    + (proved ? "A band reaches from what attacks found to what is possible. " : "")
    + "Where attacks on an image ended at a lower τ, errors are lower bounds.";
  byId("key").replaceChildren(...runs.map((run) => element("li", {}, swatch(run), named(run))));
  byId("key").hidden = data.runs.length === 1;
  showRoc(runs.filter((run) => run.attacked[condition.key].roc));
  showConfidences();
  moveMarks();
}
function showRoc(runs) {
  byId("roc-figure").hidden = !runs.length;
  const box = byId("roc-chart");
  if (!runs.length) return box.replaceChildren();
  const at = frame(box), series = [], dots = drawn("g", {});
  const parts = axes(at, "successful adversarial examples accepted, %", "correct accepted, %");
  for (const run of runs) {
    const { roc } = run.attacked[state.threat.key];
    const points = [[0, 0], ...zip(numbers(roc.x), numbers(roc.y)).reverse(), [1000, 1000]];
    parts.push(path(at, points, run));
    series.push({ run, points });
  }
  box.replaceChildren(chart(at, "ROC curve", [...parts, dots]));
  const { key } = state.threat;
  marks.push(() => dots.replaceChildren(...runs.flatMap((run) => dot(
    at, numbers(run.attacked[key].roc.at).subarray(2 * place(), 2 * place() + 2), run))));
  readable(box, at, series, ([x, y]) => `${percent(y)} % against ${percent(x)} %`);
}
function showConfidences() {
  const { noise, rejects } = state.threat;
  const filled = noise ? "of the noise as attacked" : rejects
    ? "of correct images as attacked" : "of successful adversarial examples";
  byId("histograms").replaceChildren(...attackedRuns().map(() => element("figure", {},
    element("div", { className: "chart" }), element("figcaption"))));
  attackedRuns().forEach((run, n) => histogram(run, byId("histograms").children[n]));
  byId("histograms-legend").textContent = "Confidences of correctly classified clean images "
    + `(outlined) and ${filled} (filled), as shares of each; dashed: τ.`;
}
function histogram(run, figure) {
  const [good, bad] = run.attacked[state.threat.key].histogram, count = good.length;
  const highest = Math.max(...good, ...bad) - 1e-9;
  const top = [0.04, 0.08, 0.12, 0.2, 0.4, 0.6, 0.8, 1].find((round) => round >= highest);
  const [box, caption] = figure.children, at = frame(box, 0.6);
  const bar = (height, n, attributes) => {
    const x = at.x((1000 * n) / count), y = at.y((1000 * height) / top);
    return drawn("rect", {
      x: x + 0.5, width: at.x(1000 / count) - at.x(0) - 1, y, height: at.y(0) - y, ...attributes,
    });
  };
  const line = drawn("line", { y1: at.y(0), y2: at.y(1000), class: "tau" });
  marks.push(() => {
    const tau = Math.min(1, Math.max(0, Number(run.tau[place()]) || 0));
    for (const end of ["x1", "x2"]) line.setAttribute(end, at.x(1000 * tau));
  });
  box.replaceChildren(chart(at, `confidences of ${run.name}`, [
    ...axes(at, "confidence", "share, %", { top: 100 * top, right: 1 }),
    ...bad.map((height, n) => bar(height, n, { fill: colour(run), "fill-opacity": 0.7 })),
    ...good.flatMap((height, n) =>
      (height ? [bar(height, n, { fill: "none", stroke: "currentColor" })] : [])),
    line,
  ]));
  caption.replaceChildren(swatch(run), named(run));
}
