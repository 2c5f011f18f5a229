// Values under the pointer, a finger or the arrow keys: a line across the curves, and a small list.

// Series have a run and points [x, y], x ascending; `says` turns a point into words.
function readable(box, at, series, says) {
  const svg = box.firstElementChild;
  const marks = drawn("g", { class: "hover" });
  const tip = element("div", { className: "tip", hidden: true });
  tip.setAttribute("role", "status");
  svg.append(marks);
  box.append(tip);
  let where = null;

  function show(value) {
    where = Math.min(1000, Math.max(0, value));
    const found = series.map(({ run, points }) => ({ run, point: nearest(points, where) }))
      .filter(({ point }) => point);
    if (!found.length) return;
    const line = { x1: at.x(where), x2: at.x(where), y1: at.y(0), y2: at.y(1000), class: "guide" };
    marks.replaceChildren(
      drawn("line", line),
      ...found.flatMap(({ run, point }) => dot(at, point, run, { r: 4, class: "dot" })),
    );
    tip.replaceChildren(...found.map(({ run, point }) =>
      element("div", {}, swatch(run), named(run), element("span", { textContent: says(point) }))));
    tip.hidden = false;
    const left = at.x(where) < at.width / 2;
    tip.style.left = left ? `${at.x(where) + 12}px` : "";
    tip.style.right = left ? "" : `${box.clientWidth - at.x(where) + 12}px`;
    tip.style.maxWidth = `${(left ? box.clientWidth - at.x(where) : at.x(where)) - 12}px`;
  }
  function hide() {
    where = null;
    tip.hidden = true;
    marks.replaceChildren();
  }
  const under = (event) => {
    const pixels = (event.clientX - svg.getBoundingClientRect().left) * (at.width / svg.clientWidth);
    show(((pixels - MARGIN.left) / at.inner.width) * 1000);
  };
  const keys = { ArrowLeft: -10, ArrowRight: 10, PageDown: -100, PageUp: 100 };
  svg.setAttribute("tabindex", "0");
  svg.addEventListener("pointermove", under);
  svg.addEventListener("pointerdown", under);
  svg.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") hide(); });
  svg.addEventListener("blur", hide);
  svg.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hide();
    if (!(event.key in keys)) return;
    show((where === null ? 1000 : where) + keys[event.key]);
    event.preventDefault();
  });
}
function nearest(points, x) { // of several at one place, the highest
  let best = null;
  for (const point of points) {
    if (!exists(point)) continue;
    const gain = best ? Math.abs(best[0] - x) - Math.abs(point[0] - x) : 1;
    if (gain > 0 || (gain === 0 && point[0] === best[0] && point[1] > best[1])) best = point;
  }
  return best;
}
