// Charts as SVG, drawn from numbers at the width that they have on the screen. Colors and fonts are
// left to the style sheet. Each chart is an image with a description; its table has the numbers.

const SVG = "http://www.w3.org/2000/svg";
const LEFT = 52, BOTTOM = 38, TOP = 12, RIGHT = 14;

/** An SVG element; attributes and text never become markup. */
function shape(name, attributes = {}, text = null) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== null) made.textContent = text;
  return made;
}

/** Round numbers from low to high, about `count` of them. */
export function ticks(low, high, count, integers = false) {
  const rough = Math.max((high - low) / Math.max(count, 1), 1e-300);
  const power = 10 ** Math.floor(Math.log10(rough));
  let step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough * 0.999);
  if (integers) step = Math.max(1, Math.round(step));
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high * (1 + 1e-9) + 1e-300; k += 1) found.push(k * step + 0); // no −0
  return found;
}

/** The y positions of labels, moved apart so that none covers another. */
function spread(positions, distance) {
  const order = positions.map((_, k) => k).sort((a, b) => positions[a] - positions[b]);
  const moved = [...positions];
  order.forEach((k, place) => {
    if (place) moved[k] = Math.max(moved[k], moved[order[place - 1]] + distance);
  });
  return moved;
}

/**
 * Draw into an <svg>. `chart` has the ranges `x` and `top`, the labels of the axes, `format` for
 * the numbers of the y axis or its `rungs` (heights with texts), `levels` (horizontal lines with a
 * label), `room` for these labels at the right of all marks, and `marks`.
 */
export function draw(svg, chart) {
  const width = Math.max(240, Math.round(svg.parentElement.clientWidth)), height = width < 480 ? 210 : 250;
  const [first, last] = chart.x;
  const right = width - RIGHT, bottom = height - BOTTOM;
  const x = (value) => LEFT + ((value - first) / (last - first || 1)) * (right - (chart.room ?? 0) - LEFT);
  const y = (value) => bottom - (Math.min(Math.max(value, 0), chart.top) / chart.top) * (bottom - TOP);
  const drawn = [];
  const rungs = chart.rungs ?? ticks(0, chart.top, 4).map((value) => [value, chart.format(value)]);
  for (const [value, label] of rungs) {
    drawn.push(shape("line", { class: "grid", x1: LEFT, x2: right, y1: y(value), y2: y(value) }));
    drawn.push(shape("text", { x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" }, label));
  }
  for (const value of ticks(first, last, Math.min(10, width / 70), true)) {
    if (value + (chart.shift ?? 0) > last) continue;
    drawn.push(shape("text", { x: x(value + (chart.shift ?? 0)), y: bottom + 17, "text-anchor": "middle" }, value.toLocaleString("en")));
  }
  drawn.push(shape("line", { class: "axis", x1: LEFT, x2: right, y1: bottom, y2: bottom }));
  drawn.push(shape("text", { x: right, y: height - 4, "text-anchor": "end" }, chart.xLabel));
  for (const mark of chart.marks) drawn.push(...MARKS[mark.kind](mark, x, y, chart.top));
  const levels = chart.levels.filter((level) => level.value <= chart.top);
  const heights = spread(levels.map((level) => y(level.value) - 6), 15);
  levels.forEach((level, k) => {
    const at = y(level.value);
    drawn.push(shape("line", { class: level.kind, x1: LEFT, x2: right, y1: at, y2: at }));
    drawn.push(shape("text", { class: level.kind, x: right, y: Math.max(heights[k], 10), "text-anchor": "end" }, level.label));
  });
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("height", height);
  svg.replaceChildren(shape("title", {}, chart.title), shape("desc", {}, chart.description), ...drawn);
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `${chart.title}. ${chart.description}`);
}

const joined = (points, x, y) => points.map(([a, b], k) => `${k ? "L" : "M"}${x(a).toFixed(1)} ${y(b).toFixed(1)}`).join("");

const MARKS = {
  line: ({ points, name = "line" }, x, y) => (points.length ? [shape("path", { class: name, d: joined(points, x, y) })] : []),
  band: ({ lower, upper }, x, y) => (
    lower.length ? [shape("path", { class: "band", d: `${joined([...upper, ...[...lower].reverse()], x, y)}Z` })] : []),
  dots: ({ points, name }, x, y) => points.map(([a, b]) => (
    shape("circle", { class: name, cx: x(a), cy: y(b), r: points.length > 60 ? 2 : 4 }))),
  upright: ({ at, name }, x, y) => [shape("line", { class: name, x1: x(at), x2: x(at), y1: y(0), y2: y(Infinity) })],
  bars: ({ ranges, name }, x, y, top) => ranges.flatMap(([a, low, high]) => [
    shape("line", { class: name, x1: x(a), x2: x(a), y1: y(low), y2: y(high) }),
    ...(high > top ? [shape("path", { class: `${name} beyond`, d: `M${x(a) - 4} ${TOP + 5}L${x(a)} ${TOP}L${x(a) + 4} ${TOP + 5}` })] : []), // an arrow: it goes on
  ]),
};
