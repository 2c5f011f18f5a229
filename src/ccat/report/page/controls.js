// What moves what.

const MODES = {
  given: {
    title: "as evaluated",
    value: () => "",
    says: () => "Each run is shown at the threshold that it was evaluated at.",
  },
  tpr: {
    title: "same TPR",
    value: (stop) => `${stop} % TPR`,
    says: (stop) => `The slider moves the true positive rate. Each run has its own τ, which accepts `
      + `${stop} % of the calibration images that it classifies correctly.`,
  },
  coverage: {
    title: "equal coverage",
    value: (stop) => `${stop} % coverage`,
    says: (stop) => `The slider moves the coverage. Each run has the τ that accepts ${stop} % of `
      + "the calibration images, right or wrong: here runs can be compared.",
  },
};
const stopOf = () => state.mode.stops[state.stop];
const valueOf = () => MODES[state.mode.name].value(stopOf());

function showStop() {
  const slider = byId("stop"), many = state.mode.stops.length > 1;
  slider.max = state.mode.stops.length - 1;
  slider.value = state.stop;
  slider.setAttribute("aria-label", MODES[state.mode.name].title);
  slider.setAttribute("aria-valuetext", valueOf());
  slider.parentElement.hidden = !many;
  byId("stop-value").textContent = valueOf();
  byId("says").textContent = MODES[state.mode.name].says(stopOf());
  byId("where").textContent = `at ${valueOf() || "the τ given"}`;
  const home = data.modes[0], moved = state.mode !== home || state.stop !== home.start;
  byId("reset").hidden = !moved;
  byId("reset").textContent = `back to ${MODES[home.name].value(home.stops[home.start]) || "the τ given"}`;
  for (const radio of byId("modes").querySelectorAll("input")) {
    radio.checked = radio.value === state.mode.name;
  }
}
function moveTo(mode, stop) { // the slider, or its switch
  state.mode = mode;
  state.stop = stop;
  showStop();
  showMain();
  moveMarks();
  showClasses();
  judgeGallery();
  judgeExamples();
}
function showRates() {
  options(byId("rate"), state.threat.rates.map((rate) => [rate.name, rate.title]));
  byId("rate-choice").hidden = state.threat.rates.length < 2;
}
function showRuns() { // those that were attacked within the threat
  const runs = data.runs.map((run, n) => [String(n), run.name])
    .filter(([n]) => data.runs[n].attacked[state.threat.key]);
  if (!runs.some(([n]) => Number(n) === state.run)) state.run = Number(runs[0][0]);
  options(byId("run"), runs);
  byId("run").value = String(state.run);
  byId("run-choice").hidden = runs.length < 2;
}
function showImages() {
  shownRows = 100;
  showGallery();
  showExamples();
}
function chooseThreat(key) {
  state.threat = data.conditions.find((condition) => condition.key === key);
  byId("threat").value = key;
  showRates();
  showRuns();
  showMain();
  showCurves();
  showClasses();
  showImages();
  const chosen = byId("main").querySelector("th.chosen"), box = byId("main").parentElement;
  const left = byId("main").querySelector("th").offsetWidth;
  box.scrollLeft = Math.max(0, chosen.offsetLeft + chosen.offsetWidth - box.clientWidth, 0)
    && chosen.offsetLeft - left;
}

options(byId("threat"), data.conditions.map((condition) => [condition.key, condition.title]));
for (const mode of data.modes) {
  const radio = element("input", { type: "radio", name: "mode", value: mode.name });
  radio.addEventListener("change", () => moveTo(mode, mode.start));
  byId("modes").append(element("label", {}, radio, MODES[mode.name].title));
}
for (const [n, box] of [...document.querySelectorAll("#verdicts h2")].entries()) {
  box.prepend(swatch(data.runs[n]));
}
state.run = data.runs.length - 1;
on("threat", "change", () => chooseThreat(byId("threat").value));
on("rate", "change", () => {
  state.rate = byId("rate").value;
  showMain();
  showCurves();
});
on("run", "change", () => {
  state.run = Number(byId("run").value);
  showImages();
});
on("stop", "input", () => moveTo(state.mode, Number(byId("stop").value)));
on("reset", "click", () => moveTo(data.modes[0], data.modes[0].start));
on("classes-more", "click", () => {
  allClasses = !allClasses;
  showClasses();
});
for (const [id, event] of [["examples-filter", "input"], ["examples-through", "change"]]) {
  on(id, event, () => {
    shownRows = 100;
    showExamples();
  });
}
on("examples-more", "click", () => {
  shownRows += 500;
  showExamples();
});
let width = document.documentElement.clientWidth;
window.addEventListener("resize", () => { // charts are drawn in the pixels there are
  if (width === document.documentElement.clientWidth) return;
  width = document.documentElement.clientWidth;
  showCurves();
});
showStop();
chooseThreat(data.conditions[0].key);
