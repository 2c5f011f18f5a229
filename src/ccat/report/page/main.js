// The main table: rates on clean images, and under each condition the headline and one rate more.

const text = (rates, name, tau) => percent(share(rates[name], tau));

function showMain() {
  const { before, after } = data.clean;
  const titles = (rates) => rates.map((rate) => [rate.title, rate.meaning]);
  const head = [
    ["run", ""], ...titles(before), ["τ", ""], ...titles(after),
    ...data.conditions.map((condition) => [condition.title, condition.rates[0].meaning]),
  ];
  const rows = data.runs.map((run) => {
    const tau = tauOf(run);
    const cells = [
      ...before.map((rate) => text(run.clean, rate.name, tau)),
      Number.isFinite(tau) ? fixed(tau, 3) : "–",
      ...after.map((rate) => text(run.clean, rate.name, tau)),
    ];
    return element(
      "tr", {},
      element("td", {}, swatch(run), run.name),
      ...cells.map((textContent) => element("td", { textContent })),
      ...data.conditions.map((condition) => underAttack(run, condition, tau)),
    );
  });
  const top = head.map(([textContent, title]) =>
    element("th", { textContent, title, scope: "col" }));
  byId("main").replaceChildren(
    element("thead", {}, element("tr", {}, ...top)), element("tbody", {}, ...rows),
  );
}
function underAttack(run, condition, tau) {
  const attacked = run.attacked[condition.key];
  const cell = element("td", { textContent: "–" });
  if (!attacked) return cell;
  const [headline, ...others] = condition.rates;
  cell.textContent = text(attacked.rates, headline.name, tau) + attacked.mark;
  if (attacked.planted) {
    const title = "errors planted in the model on purpose: found / planted";
    cell.append(element("small", { textContent: `planted ${attacked.planted}`, title }));
  }
  if (attacked.doubts.length) cell.title = attacked.doubts.join("\n");
  if (attacked.certified) {
    const title = "no attack within the threat can make it more, by a proof";
    cell.append(element("small", { textContent: `≤ ${percent(share(attacked.certified, tau))}`, title }));
  }
  cell.dataset.key = `${run.name} ${condition.title}`;
  const second = others.find((rate) => rate.name === byId("second-rate").value);
  if (second) {
    const textContent = `${second.title} ${text(attacked.rates, second.name, tau)}`;
    cell.append(element("small", { textContent }));
  }
  return cell;
}
