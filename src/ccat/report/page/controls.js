// What moves what.

function choose(tau) {
  chosen = tau;
  byId("tau").value = tau === null ? tauOf(data.runs[0]) : tau;
  if (document.activeElement !== byId("tau-number")) {
    byId("tau-number").value = tau === null ? "" : tau;
  }
  showMain();
  showCurves();
  showGallery();
  showExamples();
}
const on = (id, event, react) => byId(id).addEventListener(event, react);
const fresh = () => {
  shown = 100;
  showExamples();
};

const seconds = data.conditions.flatMap((condition) => condition.rates.slice(1));
const secondRates = new Map(seconds.map((rate) => [rate.name, rate.title]));
options(byId("second-rate"), [...secondRates, ["nothing", "nothing"]]);
const threats = data.conditions.map((condition) => [condition.key, condition.title]);
const runs = data.runs.map((run, n) => [String(n), run.name]);
for (const id of ["curve-threat", "gallery-threat", "examples-threat"]) options(byId(id), threats);
for (const id of ["gallery-run", "examples-run"]) {
  options(byId(id), runs);
  byId(id).value = String(data.runs.length - 1);
}

on("tau", "input", () => choose(Number(byId("tau").value)));
on("tau-number", "input", () => {
  const { value } = byId("tau-number");
  if (value === "") choose(null);
  else if (Number.isFinite(Number(value))) choose(Number(value));
});
on("tau-own", "click", () => choose(null));
on("second-rate", "change", showMain);
for (const id of ["curve-threat", "curve-rate", "curve-over"]) on(id, "change", showCurves);
for (const id of ["gallery-run", "gallery-threat"]) on(id, "change", showGallery);
for (const id of ["examples-run", "examples-threat", "examples-through"]) on(id, "change", fresh);
on("examples-filter", "input", fresh);
on("examples-more", "click", () => {
  shown += 500;
  showExamples();
});
choose(null);
