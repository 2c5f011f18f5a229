"use strict";
// The data of the page: numbers at the stops of the slider, and what became of each image.

const data = JSON.parse(document.getElementById("data").textContent);
const NOTHING = 65535; // in place of tenths of a per cent: there is no such number

function decoded(text) { // the first character says how many bytes a number takes
  const bytes = Uint8Array.from(atob(text.slice(1)), (c) => c.charCodeAt(0));
  return text[0] === "1" ? bytes : new Uint16Array(bytes.buffer);
}
const known = new Map(); // what was decoded already
function numbers(text) {
  if (!known.has(text)) known.set(text, decoded(text));
  return known.get(text);
}
const array = (index) => numbers(data.arrays[index]);

// Where the page stands: a mode of the slider and a stop of it, a threat, a rate, a run.
const state = { mode: data.modes[0], stop: data.modes[0].start, threat: null, rate: "", run: 0 };
let first = 0;
for (const mode of data.modes) {
  mode.first = first;
  first += mode.stops.length;
}
const place = () => state.mode.first + state.stop; // among the stops of all modes

const percent = (tenths) => (tenths === NOTHING ? "–" : (tenths / 10).toFixed(1));
function estimate(text, at = place()) { // value, low and high of a rate, in tenths of a per cent
  const [value, low, high] = numbers(text).subarray(3 * at, 3 * at + 3);
  return { value, low, high };
}
const className = (n) => (data.classes[n] === undefined ? String(n) : data.classes[n]);

// The rate that is shown under a condition: the one chosen, or the headline where there is none.
const rateOf = (condition) =>
  condition.rates.find((rate) => rate.name === state.rate) || condition.rates[0];

// A code says up to which threshold an image counts: here, whether it does at the present one.
const reaches = (run, code) => code >= run.needed[place()];

// What became of an example: it counts in the part, or only in the whole, or in neither. A whole
// that does not depend on τ says nothing of what is accepted. Where the attacker wants rejection,
// what counts in the part has held.
function verdict(run, condition, row) {
  const attacked = run.attacked[condition.key];
  const part = array(attacked.part)[row];
  if (condition.rejects) {
    if (part === 0) return ["wrong when clean", "held"];
    return reaches(run, part) ? ["stays accepted", "held"] : ["gets rejected", "through"];
  }
  if (reaches(run, part)) return ["got through", "through"];
  const accepted = !attacked.fixed && reaches(run, array(attacked.whole)[row]);
  return [accepted ? "accepted, right" : "rejected", "held"];
}
