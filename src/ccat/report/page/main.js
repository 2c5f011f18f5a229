// The main table: rates on clean images, and the rate shown under each condition, with intervals.

function showMain() {
  const { before, after } = data.clean, at = place();
  const head = (name, title, kind = "") =>
    element("th", { textContent: name, title, scope: "col", className: kind });
  const top = [
    head("run", ""), ...before.map((rate) => head(rate.title, rate.meaning)), head("τ", ""),
    ...after.map((rate) => head(rate.title, rate.meaning)), ...data.conditions.map(conditionHead),
  ];
  const rows = data.runs.flatMap((run) => {
    const clean = (rate) => cell(estimate(run.clean[rate.name]));
    return [
      element(
        "tr", {}, element("td", {}, swatch(run), named(run)),
        ...before.map(clean), element("td", { textContent: run.tau[at] }), ...after.map(clean),
        ...data.conditions.map((condition) => underAttack(run, condition)),
      ),
      unrejected(run),
    ];
  });
  byId("main").replaceChildren(
    element("thead", {}, element("tr", {}, ...top)), element("tbody", {}, ...rows),
  );
  showDoubts();
}
const kindOf = (condition) => (condition === state.threat ? "chosen" : "");
function conditionHead(condition) {
  const button = element("button", { type: "button", textContent: condition.title });
  button.addEventListener("click", () => chooseThreat(condition.key));
  const shown = rateOf(condition);
  const said = element("small", { textContent: shown.title, title: shown.meaning });
  return element("th", { scope: "col", className: kindOf(condition) }, button, said);
}
const marked = (mark) => [...mark].map((one) =>
  element("span", { className: one === "‡" ? "mark" : "", textContent: one }));
function cell({ value, low, high }, mark = "", kind = "") {
  const number = element("span", { className: "value", textContent: percent(value) });
  if (mark) number.append(element("span", { className: "marks" }, ...marked(mark)));
  const made = element("td", { className: kind }, number);
  if (value !== NOTHING) {
    made.append(element("small", { textContent: `${percent(low)}–${percent(high)}` }));
  }
  return made;
}
function underAttack(run, condition) {
  const attacked = run.attacked[condition.key];
  if (!attacked) return element("td", { textContent: "–", className: kindOf(condition) });
  const shown = rateOf(condition), doubted = attacked.inDoubt[place()].length > 0;
  const made = cell(
    estimate(attacked.rates[shown.name]), attacked.mark + (doubted ? "‡" : ""), kindOf(condition),
  );
  made.dataset.key = `${run.name} ${condition.title}`;
  if (attacked.certified && shown === condition.rates[0]) {
    const bound = percent(numbers(attacked.certified)[place()]);
    made.append(element("small", { textContent: `≤ ${bound}`, className: "proved" }));
  }
  if (attacked.planted) {
    made.append(element("small", { textContent: `planted ${attacked.planted}` }));
  }
  return made;
}
function unrejected(run) {
  const { before, after } = data.clean;
  const quiet = (textContent, className = "") => element("td", { textContent, className });
  const clean = (rate) => quiet(run.unrejected[rate.name]);
  const under = (condition) => {
    const attacked = run.attacked[condition.key], headline = rateOf(condition) === condition.rates[0];
    const known = attacked && headline && !condition.noise;
    return quiet(known ? attacked.unrejected : "–", kindOf(condition));
  };
  return element(
    "tr", { className: "unrejected" }, quiet("nothing rejected"),
    ...before.map(clean), quiet("–"), ...after.map(clean), ...data.conditions.map(under),
  );
}

// Every reason to doubt a number of the table, in a sentence; of one reason, all its threats.
function showDoubts() {
  const found = new Map();
  for (const run of data.runs) {
    for (const condition of data.conditions) {
      const attacked = run.attacked[condition.key];
      for (const number of attacked ? attacked.inDoubt[place()] : []) {
        const doubt = attacked.doubts[number], reason = `${run.name}\n${doubt.text}`;
        if (!found.has(reason)) found.set(reason, { run, doubt, titles: [] });
        found.get(reason).titles.push(condition.title);
      }
    }
  }
  byId("doubts").replaceChildren(...[...found.values()].map(({ run, doubt, titles }) => {
    const link = element("a", { href: `#doubt-${doubt.check}`, textContent: doubt.link });
    link.addEventListener("click", () => { byId("explained").open = true; });
    return element(
      "li", {}, element("span", { className: "mark", textContent: "‡ " }), named(run),
      `, ${titles.join(", ")}: ${doubt.text}. `, link,
    );
  }));
  byId("doubts").hidden = !found.size;
}
