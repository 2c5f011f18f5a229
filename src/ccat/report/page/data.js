"use strict";
// The data of the page, and the two things that are done with it: counting levels, and rounding.

const data = JSON.parse(document.getElementById("data").textContent);
const NOBODY = 65535; // in place of the number of an attempt: the image itself

function decoded(text, kind) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return new kind(bytes.buffer);
}
const arrays = data.arrays.map((text) => decoded(text, Float64Array));

// Levels say up to which τ each example counts in the part and in the whole (NaN: never).
const sorted = new Map();
function ascending(index) {
  if (!sorted.has(index)) {
    sorted.set(index, arrays[index].filter((level) => !Number.isNaN(level)).sort());
  }
  return sorted.get(index);
}
function reaching(levels, tau) { // levels ascend
  let low = 0, high = levels.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (levels[middle] >= tau) high = middle;
    else low = middle + 1;
  }
  return levels.length - low;
}
function isFixed(index) { // all levels are infinite: the count does not depend on τ
  const levels = ascending(index);
  return levels.length === 0 || levels[0] === Infinity;
}
function share([part, whole], tau) {
  const all = reaching(ascending(whole), tau);
  if (all) return reaching(ascending(part), tau) / all;
  return isFixed(whole) ? NaN : 0;
}
const conditionOf = (key) => data.conditions.find((condition) => condition.key === key);
const headlineOf = (key) => conditionOf(key).rates[0];

// What became of an example: it counts in the part, or only in the whole, or in neither. A whole
// that does not depend on τ says nothing of what is accepted. Where the attacker wants rejection,
// what counts in the part has held.
function verdict(run, key, row) {
  const [part, whole] = run.attacked[key].rates[headlineOf(key).name];
  const tau = tauOf(run);
  if (conditionOf(key).rejects) {
    if (Number.isNaN(arrays[part][row])) return ["wrong when clean", "held"];
    return arrays[part][row] >= tau ? ["stays accepted", "held"] : ["gets rejected", "through"];
  }
  if (arrays[part][row] >= tau) return ["got through", "through"];
  const accepted = !isFixed(whole) && arrays[whole][row] >= tau;
  return [accepted ? "accepted, right" : "rejected", "held"];
}

for (const run of data.runs) {
  run.labels = decoded(run.labels, Uint16Array);
  for (const attacked of Object.values(run.attacked)) {
    attacked.by = decoded(attacked.by, Uint16Array);
    for (const answers of [attacked.clean, attacked.worst]) {
      answers.predicted = decoded(answers.predicted, Uint16Array);
      answers.score = arrays[answers.score];
    }
  }
}

let chosen = null; // τ of all runs, or null: each run's own
function tauOf(run) {
  if (chosen !== null) return chosen;
  return run.tau === null ? -Infinity : run.tau;
}

function fixed(value, digits) { // exact halves to even, as Python
  const scaled = value * 10 ** digits, below = Math.floor(scaled);
  const half = scaled - below === 0.5 && Number.isInteger(value * 2 ** 20);
  return (half && below % 2 === 0 ? below / 10 ** digits : value).toFixed(digits);
}
const percent = (value) => (Number.isNaN(value) ? "–" : fixed(100 * value, 1));
const className = (n) => (data.classes[n] === undefined ? String(n) : data.classes[n]);
