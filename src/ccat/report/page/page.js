"use strict";
// Everything is computed from the outcomes embedded in the page, by the definitions of ccat.metrics.
const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);

function decoded(text, kind) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return new kind(bytes.buffer);
}
const answers = (a) => ({ score: decoded(a.score, Float64Array), wrong: decoded(a.wrong, Uint8Array), predicted: decoded(a.predicted, Uint16Array) });
for (const run of data.runs) {
  run.labels = decoded(run.labels, Uint16Array);
  run.clean = answers(run.clean);
  for (const key of Object.keys(run.attacked)) {
    const by = decoded(run.attacked[key].by, Uint16Array);
    const { seen, clean } = run.attacked[key];
    run.attacked[key] = Object.assign(answers(run.attacked[key]), { by, seen, clean: clean ? answers(clean) : run.clean }); // by the same detector
  }
}
let chosen = null; // τ of all runs, or null: each run's own
const tauOf = (run) => (chosen === null ? run.tau : chosen);

// ---- metrics: up to which τ each example counts in the part and in the whole (NaN: never)

function rates(run, key) {
  const clean = key === undefined ? run.clean : run.attacked[key].clean;
  const own = (score, keep) => Float64Array.from(score, (s, n) => (keep(n) ? s : NaN));
  if (key === undefined) {
    return {
      error: [own(clean.score, (n) => clean.wrong[n]), clean.score],
      accepted: [clean.score, clean.score.length],
      tpr: [own(clean.score, (n) => !clean.wrong[n]), clean.wrong.reduce((sum, wrong) => sum + !wrong, 0)],
    };
  }
  const bad = run.attacked[key];
  const count = bad.score.length;
  if (data.threats.find((t) => t.key === key).source === "noise") return { rerr: [bad.score, Float64Array.from(bad.score, () => Infinity)] };
  const part = new Float64Array(count), whole = new Float64Array(count);
  for (let n = 0; n < count; n++) {
    const levels = [];
    if (clean.wrong[n]) levels.push(clean.score[n]);
    if (bad.wrong[n]) levels.push(bad.score[n]);
    part[n] = levels.length ? Math.max(...levels) : NaN;
    whole[n] = Math.max(clean.score[n], bad.score[n]);
  }
  const negative = own(bad.score, (n) => bad.wrong[n] && !clean.wrong[n]);
  const right = own(clean.score.slice(0, count), (n) => !clean.wrong[n]);
  return { rerr: [part, whole], fpr: [negative, count], tpr: [right, reaching(right, -Infinity)], negative };
}
const reaching = (levels, tau) => levels.reduce((sum, level) => sum + (level >= tau), 0);
function share([part, whole], tau) {
  const all = typeof whole === "number" ? whole : reaching(whole, tau);
  return all ? reaching(part, tau) / all : typeof whole === "number" ? NaN : 0;
}
function fixed(value, digits) { // exact halves to even, as Python
  const scaled = value * 10 ** digits, below = Math.floor(scaled);
  const half = scaled - below === 0.5 && Number.isInteger(value * 2 ** 20);
  return (half && below % 2 === 0 ? below / 10 ** digits : value).toFixed(digits);
}
const percent = (value) => (Number.isNaN(value) ? "–" : fixed(100 * value, 1));
const cached = new Map();
function ratesOf(run, key) {
  const name = `${data.runs.indexOf(run)} ${key}`;
  if (!cached.has(name)) cached.set(name, rates(run, key));
  return cached.get(name);
}

// ---- small helpers for elements

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
const dashes = (run) => ["", "6 3", "2 3", "8 3 2 3"][run.dash % 4];
function swatch(run) {
  const line = drawn("line", { x1: 0, x2: 28, y1: 7, y2: 7, stroke: colour(run), "stroke-width": 4, "stroke-dasharray": dashes(run) });
  return drawn("svg", { viewBox: "0 0 28 14", class: "swatch", "aria-hidden": "true" }, line);
}
function options(select, entries) {
  select.replaceChildren(...entries.map(([value, text]) => element("option", { value, textContent: text })));
}

// ---- the main table

function showMain() {
  const head = ["run", "Err", "accepted", "τ", "TPR", ...data.threats.map((t) => t.name)];
  const rows = data.runs.map((run) => {
    const tau = tauOf(run), clean = ratesOf(run);
    const cells = [share(clean.error, tau), share(clean.accepted, tau)].map(percent);
    cells.push(fixed(tau, 3), percent(share(clean.tpr, tau)));
    const row = element("tr", {}, element("td", {}, swatch(run), run.name), ...cells.map((textContent) => element("td", { textContent })));
    for (const threat of data.threats) {
      const cell = element("td", { textContent: "–" });
      if (run.attacked[threat.key]) {
        const rate = ratesOf(run, threat.key);
        cell.textContent = percent(share(rate.rerr, tau)) + (run.attacked[threat.key].seen ? "*" : "");
        cell.dataset.key = `${run.name} ${threat.name}`;
        if (rate.fpr) cell.append(element("small", { textContent: `FPR ${percent(share(rate.fpr, tau))}` }));
      }
      row.append(cell);
    }
    return row;
  });
  const top = element("tr", {}, ...head.map((textContent) => element("th", { textContent, scope: "col" })));
  byId("main").replaceChildren(element("thead", {}, top), element("tbody", {}, ...rows));
}

// ---- charts

const W = 420, H = 280, LEFT = 46, RIGHT = 18, TOP = 10, BOTTOM = 40;
const X = (value) => LEFT + value * (W - LEFT - RIGHT);
const Y = (value) => H - BOTTOM - value * (H - TOP - BOTTOM);
function axes(xLabel, yLabel, top = 1, right = 1) {
  const parts = [drawn("rect", { x: X(0), y: Y(1), width: X(1) - X(0), height: Y(0) - Y(1), class: "axis" })];
  for (const tick of [0, 0.25, 0.5, 0.75, 1]) {
    parts.push(drawn("text", { x: X(tick), y: H - BOTTOM + 16, "text-anchor": "middle" }, String(right * tick)));
    parts.push(drawn("text", { x: LEFT - 6, y: Y(tick) + 4, "text-anchor": "end" }, String(Math.round(100 * tick * top))));
  }
  parts.push(drawn("text", { x: (X(0) + X(1)) / 2, y: H - 6, "text-anchor": "middle" }, xLabel));
  const middle = (Y(0) + Y(1)) / 2;
  parts.push(drawn("text", { x: 12, y: middle, "text-anchor": "middle", transform: `rotate(-90 12 ${middle})` }, yLabel));
  return parts;
}
const chart = (label, parts) => drawn("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": label }, ...parts);
function path(points, run, extra = {}) {
  const d = points.map(([x, y], n) => `${n ? "L" : "M"}${X(x).toFixed(2)} ${Y(y).toFixed(2)}`).join("");
  return drawn("path", { d, fill: "none", stroke: colour(run), "stroke-width": 2, "stroke-dasharray": dashes(run), ...extra });
}
const GRID = Array.from({ length: 201 }, (_, n) => n / 200);

function showCurves() {
  const key = byId("curve-threat").value;
  const runs = data.runs.filter((run) => run.attacked[key]);
  const rerr = axes("threshold τ", "RErr in %"), roc = axes("false positive rate in %", "true positive rate in %", 1, 100);
  for (const run of runs) {
    const rate = ratesOf(run, key);
    rerr.push(path(GRID.map((tau) => [tau, share(rate.rerr, tau)]), run));
    rerr.push(drawn("circle", { cx: X(run.tau), cy: Y(share(rate.rerr, run.tau)), r: 5, fill: colour(run) }));
    if (rate.negative) {
      const negatives = reaching(rate.negative, -Infinity);
      if (negatives) {
        const scores = [...new Set([...run.clean.score.slice(0, rate.negative.length), ...rate.negative.filter((s) => !Number.isNaN(s))])].sort((a, b) => b - a);
        const every = Math.ceil(scores.length / 300);
        const at = (tau) => [reaching(rate.negative, tau) / negatives, share(rate.tpr, tau)];
        roc.push(path([[0, 0], ...scores.filter((_, n) => n % every === 0).map(at), [1, 1]], run));
        const [x, y] = at(run.tau);
        roc.push(drawn("circle", { cx: X(x), cy: Y(y), r: 5, fill: colour(run) }));
      }
    }
  }
  if (chosen !== null) rerr.push(drawn("line", { x1: X(chosen), x2: X(chosen), y1: Y(0), y2: Y(1), stroke: "currentColor", "stroke-dasharray": "3 3" }));
  byId("rerr-chart").replaceChildren(chart("RErr over τ", rerr));
  byId("roc-chart").replaceChildren(chart("ROC curve", roc));
  byId("key").replaceChildren(...runs.map((run) => element("span", { className: "entry" }, swatch(run), run.name)));
  byId("histograms").replaceChildren(...runs.map((run) => histogram(run, key)));
}
function histogram(run, key) {
  const bad = run.attacked[key], rate = ratesOf(run, key);
  const clean = [...run.clean.score].filter((_, n) => !run.clean.wrong[n]);
  const found = [...(rate.negative || bad.score)].filter((s) => !Number.isNaN(s));
  const bins = 25;
  const shares = (scores) => {
    const counts = new Array(bins).fill(0);
    for (const s of scores) counts[Math.min(bins - 1, Math.floor(s * bins))] += 1 / Math.max(1, scores.length);
    return counts;
  };
  const [good, worse] = [shares(clean), shares(found)];
  const top = [0.04, 0.08, 0.12, 0.2, 0.4, 0.6, 0.8, 1].find((round) => round >= Math.max(...good, ...worse) - 1e-9);
  const parts = axes("confidence", "share in %", top);
  const bar = (height, n, attributes) => drawn("rect", {
    x: X(n / bins) + 1, width: X(1 / bins) - X(0) - 2, y: Y(height / top), height: Y(0) - Y(height / top), ...attributes });
  worse.forEach((height, n) => parts.push(bar(height, n, { fill: colour(run), "fill-opacity": 0.75 })));
  good.forEach((height, n) => height && parts.push(bar(height, n, { fill: "none", stroke: "currentColor" })));
  const tau = tauOf(run);
  parts.push(drawn("line", { x1: X(tau), x2: X(tau), y1: Y(0), y2: Y(1), stroke: "currentColor", "stroke-dasharray": "3 3" }));
  const box = element("div", { className: "chart" });
  box.append(chart(`confidences of ${run.name}`, parts));
  return element("figure", {}, box, element("figcaption", { textContent: run.name }));
}

// ---- gallery

function verdict(fails, accepted) {
  if (fails) return ["got through", "through"];
  return accepted ? ["accepted, right", "held"] : ["rejected", "held"];
}
const className = (n) => (data.classes[n] === undefined ? String(n) : data.classes[n]);
function showGallery() {
  const run = data.runs[Number(byId("gallery-run").value)], key = byId("gallery-threat").value;
  const cards = (run.gallery[key] || []).map((one) => {
    const images = element("div", { className: "images" }, ...[[one.image, "image"], [one.adversarial, "attacked"], [one.difference, "difference"]]
      .map(([source, alt]) => element("img", { src: source, alt: `${alt} ${one.row}` })));
    const noise = one.label === null;
    const accepted = one.confidence >= tauOf(run);
    const [text, kind] = verdict(accepted && (noise || one.predicted !== one.label), accepted);
    const first = noise ? `noise ${one.row}` : `image ${one.row}, a ${className(one.label)}`;
    return element("div", { className: "card" }, images,
      element("div", { textContent: `${first}: taken for ${className(one.cleanPredicted)} at ${percent(one.cleanConfidence)} %` }),
      element("div", {}, `attacked: ${className(one.predicted)} at ${percent(one.confidence)} %, `, element("span", { className: kind, textContent: text })));
  });
  const missing = "The perturbations were not kept (or not attacked): `ccat attack` with --keep worst keeps them.";
  byId("gallery").replaceChildren(...(cards.length ? cards : [element("p", { textContent: missing })]));
}

// ---- image by image

const COLUMNS = [["image", "n"], ["label", "n"], ["clean answer", "n"], ["clean confidence", "n"], ["attacked answer", "n"], ["confidence", "n"], ["outcome", ""], ["attack", ""]];
let sorting = [0, 1], shown = 100;
function showExamples() {
  const run = data.runs[Number(byId("examples-run").value)], key = byId("examples-threat").value;
  const bad = run.attacked[key];
  const noise = data.threats.find((t) => t.key === key)?.source === "noise";
  const words = byId("examples-filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const tau = tauOf(run);
  const rate = bad && ratesOf(run, key);
  let rows = [];
  for (let n = 0; bad && n < bad.score.length; n++) {
    const outcome = verdict(rate.rerr[0][n] >= tau, rate.rerr[1][n] >= tau)[0];
    const clean = noise ? ["–", "–", "–"] : [run.labels[n], run.clean.predicted[n], run.clean.score[n]];
    rows.push([n, ...clean, bad.predicted[n], bad.score[n], outcome, bad.by[n] === 65535 ? "none succeeded" : run.attempts[bad.by[n]]]);
  }
  if (byId("examples-through").checked) rows = rows.filter((row) => row[6] === "got through");
  const text = (row) => row.map((cell, n) => (n === 1 || n === 2 || n === 4 ? (cell === "–" ? cell : className(cell)) : n === 3 || n === 5 ? (cell === "–" ? cell : percent(cell)) : String(cell)));
  rows = rows.filter((row) => { const all = text(row).join(" ").toLowerCase(); return words.every((word) => all.includes(word)); });
  const [column, direction] = sorting;
  rows.sort((a, b) => direction * (a[column] < b[column] ? -1 : a[column] > b[column] ? 1 : 0) || a[0] - b[0]);
  const head = element("tr", {}, ...COLUMNS.map(([name, kind], n) => {
    const arrow = n === column ? (direction > 0 ? " ▲" : " ▼") : "";
    const button = element("button", { type: "button", textContent: name + arrow });
    button.addEventListener("click", () => { sorting = [n, n === sorting[0] ? -sorting[1] : 1]; showExamples(); });
    const cell = element("th", { className: kind, scope: "col" }, button);
    cell.setAttribute("aria-sort", n === column ? (direction > 0 ? "ascending" : "descending") : "none");
    return cell;
  }));
  const body = rows.slice(0, shown).map((row) => element("tr", {}, ...text(row).map((textContent, n) =>
    element("td", { textContent, className: n === 6 ? (textContent === "got through" ? "through" : "held") : COLUMNS[n][1] }))));
  byId("examples").replaceChildren(element("thead", {}, head), element("tbody", {}, ...body));
  byId("examples-count").textContent = `${rows.length} images`;
  byId("examples-more").hidden = rows.length <= shown;
}

// ---- what moves what

function choose(tau) {
  chosen = tau;
  const display = tau === null ? data.runs[0].tau : tau;
  byId("tau").value = display;
  if (document.activeElement !== byId("tau-number")) byId("tau-number").value = tau === null ? "" : display;
  showMain(); showCurves(); showGallery(); showExamples();
}
const threatOptions = data.threats.map((t) => [t.key, t.name]);
const runOptions = data.runs.map((run, n) => [String(n), run.name]);
for (const id of ["curve-threat", "gallery-threat", "examples-threat"]) options(byId(id), threatOptions);
for (const id of ["gallery-run", "examples-run"]) {
  options(byId(id), runOptions);
  byId(id).value = String(data.runs.length - 1);
}
byId("tau").addEventListener("input", () => choose(Number(byId("tau").value)));
byId("tau-number").addEventListener("input", () => {
  const value = byId("tau-number").value;
  if (value === "") choose(null);
  else if (Number.isFinite(Number(value))) choose(Number(value));
});
byId("tau-own").addEventListener("click", () => choose(null));
byId("curve-threat").addEventListener("change", showCurves);
for (const id of ["gallery-run", "gallery-threat"]) byId(id).addEventListener("change", showGallery);
for (const id of ["examples-run", "examples-threat", "examples-through"]) byId(id).addEventListener("change", () => { shown = 100; showExamples(); });
byId("examples-filter").addEventListener("input", () => { shown = 100; showExamples(); });
byId("examples-more").addEventListener("click", () => { shown += 500; showExamples(); });
choose(null);
