
"use strict";
// The page of a run: what `tether.view.document` says, live or frozen. All text is set as text,
// never as markup: names, reasons and messages may be anything.

const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";

/** An element with children: nodes, or anything else as text. */
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children.map((child) => (child instanceof Node ? child : String(child))));
  return made;
}

/** The same for SVG. */
function shape(name, attributes = {}, text = null) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== null) made.textContent = text;
  return made;
}

function number(value, digits = 3) {
  if (value === null || value === undefined) return "–";
  if (value !== 0 && (Math.abs(value) < 1e-4 || Math.abs(value) >= 1e9)) return Number(value.toPrecision(digits)).toExponential().replace("+", "");
  const text = Math.abs(value) >= 10 ** digits ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(digits)));
  return text.replace("-", "−");
}
const percent = (value) => `${number(100 * value)}\u00a0%`;
const FORMATS = { number, percent };
const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
const clock = (time) => new Date(time).toLocaleTimeString("en-GB");
const moment = (iso) => new Date(iso).toLocaleString("en-GB", { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", timeZoneName: "short" }).replace(/ (?!\d\d:)/g, "\u00a0");
const time = (iso) => (iso ? element("time", { datetime: iso }, moment(iso)) : "–");
const interval = ({ count, mean, lower, upper }) => (count ? `${number(mean)} (${number(lower)}\u00a0to\u00a0${number(upper)})` : "–");

// ---- charts -------------------------------------------------------------------------------------

const LEFT = 54, RIGHT = 14, TOP = 16, BOTTOM = 38, MANY = 60;

/** Round numbers from low to high, about `count` of them. */
function ticks(low, high, count, integers = false) {
  const rough = Math.max((high - low) / Math.max(count, 1), 1e-300);
  const power = 10 ** Math.floor(Math.log10(rough));
  let step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough * 0.999);
  if (integers) step = Math.max(1, Math.round(step));
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k += 1) found.push(k * step + 0); // no −0
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

/** The ranges of both axes: all units, or where the points are. */
function ranges(chart) {
  const points = chart.series.flatMap((series) => series.points);
  const xs = chart.x_ticks ? points.map(([x]) => x) : shown.units.map((unit) => unit.number);
  const pad = chart.x_ticks ? 0.02 * (Math.max(...xs) - Math.min(...xs)) : 0.5;
  const ys = points.flatMap(([, y, low, high]) => [y, low ?? y, high ?? y]).concat(chart.levels.map((level) => level.value));
  const least = Math.min(...ys), most = Math.max(...ys), room = 0.08 * (most - least || Math.abs(most) || 1);
  const bottom = chart.bottom ?? least - room;
  return { x: [Math.min(...xs) - pad, Math.max(...xs) + pad], y: [bottom, Math.max(chart.top ?? most + room, bottom + 1e-12)] };
}

const joined = (points) => points.map(([x, y], k) => `${k ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

/** How each style of series is drawn; `x` and `y` give pixels. */
const MARKS = {
  line: (points, x, y) => [
    shape("path", { class: "line", d: joined(points.map(([a, b]) => [x(a), y(b)])) }),
    ...(points.length > MANY ? [] : points.map(([a, b]) => shape("circle", { class: "dot", cx: x(a), cy: y(b), r: points.length > 30 ? 1.5 : 2.5 }))),
  ],
  dashed: (points, x, y) => [shape("path", { class: "dashed", d: joined(points.map(([a, b]) => [x(a), y(b)])) })],
  cross: (points, x, y) => points.map(([a, b]) => shape("path", { class: "cross", d: `M${x(a) - 4} ${y(b) - 4}l8 8m0 -8l-8 8` })),
  limit: (points, x, y) => points.map(([a, b]) => shape("line", { class: "limit", x1: x(a - 0.38), x2: x(a + 0.38), y1: y(b), y2: y(b) })),
  steps: (points, x, y, { falls = [] }) => {
    const drawn = [], bottom = y(-Infinity);
    let path = [];
    for (const [a, b] of points) {
      path.push([x(a - 0.5), y(b)]);
      if (!falls.includes(a)) { path.push([x(a + 0.5), y(b)]); continue; }
      drawn.push(shape("path", { class: "steps", d: joined([...path, [x(a), y(b)]]) }));
      drawn.push(shape("path", { class: "fall", d: joined([[x(a), y(b)], [x(a), bottom], [x(a + 0.5), bottom]]) }));
      path = [[x(a + 0.5), bottom]];
    }
    return path.length > 1 ? [...drawn, shape("path", { class: "steps", d: joined(path) })] : drawn;
  },
};
for (const style of ["dot", "ring"]) {
  MARKS[style] = (points, x, y, { shift = 0 }, top) => points.flatMap(([a, b, low, high]) => {
    const at = x(a + shift), drawn = [];
    if (low !== null && low !== undefined) {
      drawn.push(shape("line", { class: `bar ${style}`, x1: at, x2: at, y1: y(low), y2: y(high) }));
      if (high > top) drawn.push(shape("path", { class: `bar ${style}`, d: `M${at - 4} ${TOP + 5}L${at} ${TOP}L${at + 4} ${TOP + 5}` })); // it goes on
    }
    return [...drawn, shape("circle", { class: style, cx: at, cy: y(b), r: points.length > MANY ? 2 : 4 })];
  });
}

/** Draw a chart into an <svg> at the width it has on the screen; returns where its units are. */
function draw(svg, chart, words) {
  const width = Math.max(240, Math.round(svg.parentElement.clientWidth)), height = width < 480 ? 220 : 270;
  const range = ranges(chart), right = width - RIGHT, base = height - BOTTOM;
  const [x0, x1] = range.x, [y0, y1] = range.y, format = FORMATS[chart.format];
  const x = (value) => LEFT + ((value - x0) / (x1 - x0 || 1)) * (right - LEFT);
  const y = (value) => base - ((Math.min(Math.max(value, y0), y1) - y0) / (y1 - y0)) * (base - TOP);
  const drawn = [];
  for (const [value, label] of chart.y_ticks ?? ticks(y0, y1, 4).map((value) => [value, format(value)])) {
    drawn.push(shape("line", { class: "grid", x1: LEFT, x2: right, y1: y(value), y2: y(value) }));
    drawn.push(shape("text", { x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" }, label));
  }
  for (const [value, label] of chart.x_ticks ?? ticks(x0, x1, Math.min(10, width / 70), true).map((value) => [value, value.toLocaleString("en")])) {
    if (value >= x0 && value <= x1) drawn.push(shape("text", { x: x(value), y: base + 17, "text-anchor": "middle" }, label));
  }
  drawn.push(shape("line", { class: "axis", x1: LEFT, x2: right, y1: base, y2: base }));
  drawn.push(shape("text", { x: right, y: height - 4, "text-anchor": "end" }, chart.x_label ?? words.unit));
  for (const at of chart.alarms ?? []) {
    if (at >= x0 && at <= x1) drawn.push(shape("line", { class: "alarm", x1: x(at), x2: x(at), y1: TOP, y2: base }));
  }
  if (chart.mark !== undefined && chart.mark !== null) drawn.push(shape("line", { class: "mark", x1: x(chart.mark), x2: x(chart.mark), y1: TOP, y2: base }));
  const levels = chart.levels.filter((level) => level.value <= y1), heights = spread(levels.map((level) => y(level.value) - 6), 15);
  for (const level of levels) drawn.push(shape("line", { class: "level", x1: LEFT, x2: right, y1: y(level.value), y2: y(level.value) }));
  for (const series of chart.series) drawn.push(...MARKS[series.style](series.points, x, y, series, y1));
  levels.forEach((level, k) => drawn.push(shape("text", { class: "level", x: right, y: Math.max(heights[k], 10), "text-anchor": "end" }, level.label)));
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("height", height);
  svg.replaceChildren(shape("title", {}, chart.title), ...drawn);
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", describe(chart, words));
  return { x, width, height };
}

/** A point as text. */
function valueOf(chart, [, value, lower, upper, text]) {
  const format = FORMATS[chart.format];
  if (text) return text;
  return lower === null || lower === undefined ? format(value) : `${format(value)} (${format(lower)} to ${format(upper)})`;
}

/** A chart in a sentence, for who does not see it. */
function describe(chart, words) {
  const last = chart.series.map((series) => `${series.name} ${valueOf(chart, series.points.at(-1))}`);
  const where = chart.x_ticks ? "at the right end" : `in ${words.unit} ${Math.max(...chart.series.map((series) => series.points.at(-1)[0]))}`;
  return [`${chart.title}. ${capital(where)}: ${last.join(", ")}`, ...chart.levels.map((level) => level.label)].join("; ");
}

/** The rows of the table of a chart: one for each place on the x axis, the last first. */
function rowsOf(chart) {
  const places = [...new Set(chart.series.flatMap((series) => series.points.map(([x]) => x)))].sort((a, b) => b - a);
  const known = chart.series.map((series) => new Map(series.points.map((point) => [point[0], point])));
  return places.map((place) => [place, ...known.map((points) => (points.has(place) ? valueOf(chart, points.get(place)) : "–"))]);
}

/** What stands for a series in the legend. */
function legendOf(series) {
  const svg = shape("svg", { viewBox: "0 0 22 12", "aria-hidden": "true" });
  const points = series.style === "dot" || series.style === "ring" || series.style === "cross" ? [[0.5, 0.5]] : [[0, 0.5], [1, 0.5]];
  const marks = series.style === "limit" ? [shape("line", { class: "limit", x1: 2, x2: 20, y1: 6, y2: 6 })]
    : series.style === "steps" ? [shape("line", { class: "steps", x1: 2, x2: 20, y1: 6, y2: 6 })]
    : MARKS[series.style](points, (a) => 2 + 18 * a, () => 6, {}, 1);
  svg.append(...marks);
  return element("li", {}, svg, series.name);
}

/** A chart with its title, its legend, its numbers, and a reading of one unit at a time. */
class Figure {
  constructor() {
    this.title = element("h4");
    this.caption = element("p", { class: "quiet" });
    this.legend = element("ul", { class: "legend" });
    this.svg = shape("svg");
    this.tip = element("div", { class: "tip", hidden: "" });
    this.plot = element("div", { class: "plot" }, this.svg, this.tip);
    this.numbers = element("div");
    this.made = element(
      "figure", {}, element("figcaption", {}, this.title, this.caption), this.legend, this.plot,
      element("details", {}, element("summary", {}, "Show the numbers"), this.numbers),
    );
    new ResizeObserver(() => this.draw()).observe(this.plot);
    this.plot.addEventListener("pointermove", (event) => this.point(event));
    this.plot.addEventListener("pointerleave", () => this.read(null));
    this.plot.addEventListener("click", (event) => { this.point(event); if (this.at) select(this.at); });
    this.plot.addEventListener("keydown", (event) => this.press(event));
    this.plot.addEventListener("blur", () => this.read(null));
  }

  show(chart, words, titled = true) {
    if (this.text === JSON.stringify(chart)) return;
    this.text = JSON.stringify(chart);
    Object.assign(this, { chart, words, places: rowsOf(chart).reverse() });
    this.made.id = `chart-${chart.id}`;
    this.title.textContent = titled ? chart.title : "";
    this.title.hidden = !titled;
    this.caption.textContent = chart.text;
    this.legend.replaceChildren(...(chart.series.length > 1 ? chart.series.map(legendOf) : []));
    if (!chart.x_ticks) {
      this.plot.tabIndex = 0;
      this.plot.setAttribute("role", "group");
      this.plot.setAttribute("aria-label", `${chart.title}: read it with the arrow keys, choose with Enter`);
    }
    const headings = [capital(chart.x_label ?? words.unit), ...chart.series.map((series) => capital(series.name))];
    const rows = chart.x_ticks ? rowsOf(chart).map(([x, ...rest]) => [number(Math.exp(x)), ...rest]) : rowsOf(chart);
    this.numbers.replaceChildren(table(`${chart.title}: the numbers`, headings, rows));
    this.draw();
  }

  draw() {
    if (this.chart && this.plot.clientWidth) this.scale = draw(this.svg, this.chart, this.words);
  }

  /** Show what one unit has, or nothing. */
  read(place) {
    const row = this.places?.find(([at]) => at === place);
    this.at = row ? place : null;
    this.svg.querySelector(".cursor")?.remove();
    this.tip.hidden = !row;
    if (!row) return "";
    const text = [`${capital(this.words.unit)} ${place}`, ...this.chart.series.map((series, k) => `${series.name}: ${row[k + 1]}`).filter((_, k) => row[k + 1] !== "–")];
    this.tip.textContent = text.join("\n");
    const x = this.scale.x(place), half = this.scale.width / 2;
    this.svg.append(shape("line", { class: "cursor", x1: x, x2: x, y1: TOP, y2: this.scale.height - BOTTOM }));
    const ratio = this.svg.clientWidth / this.scale.width, wide = this.tip.offsetWidth;
    const left = x > half ? x * ratio - wide - 10 : x * ratio + 10;
    this.tip.style.left = `${Math.max(0, Math.min(left, this.plot.clientWidth - wide))}px`;
    return text.join(", ");
  }

  point(event) {
    if (!this.scale || this.chart.x_ticks) return;
    const x = ((event.clientX - this.svg.getBoundingClientRect().left) / this.svg.clientWidth) * this.scale.width;
    const near = this.places.reduce((one, other) => (Math.abs(this.scale.x(other[0]) - x) < Math.abs(this.scale.x(one[0]) - x) ? other : one));
    this.read(near[0]);
  }

  press(event) {
    if (this.chart.x_ticks) return;
    const at = this.places.findIndex(([place]) => place === this.at), last = this.places.length - 1;
    const next = { ArrowRight: Math.min(at + 1, last), ArrowLeft: at < 0 ? last : Math.max(at - 1, 0), Home: 0, End: last }[event.key];
    if (event.key === "Escape") this.read(null);
    else if (event.key === "Enter" && this.at) { select(this.at); $("unit").focus(); }
    else if (next !== undefined) { $("announcement").textContent = this.read(this.places[next][0]); event.preventDefault(); }
  }
}

// ---- parts of the page --------------------------------------------------------------------------

/** A table in a region that can be scrolled with the keys; on a phone a "stack" has a line for each cell. */
function table(caption, headings, rows, { stack = false, long = -1, classes = [] } = {}) {
  const body = element("tbody", {}, ...rows.map((cells, k) => element("tr", classes[k] ? { class: classes[k] } : {}, ...cells.map((cell, column) => {
    const kind = column === long ? { class: "long" } : {};
    return element("td", { "data-heading": headings[column], ...kind }, typeof cell === "number" ? cell.toLocaleString("en") : cell ?? "–");
  }))));
  const head = element("thead", {}, element("tr", {}, ...headings.map((each) => element("th", { scope: "col" }, each))));
  const made = element("table", {}, element("caption", { class: "visually-hidden" }, caption), head, body);
  return element("div", { class: stack ? "scroll stack" : "scroll", tabindex: "0", role: "region", "aria-label": caption }, made);
}

const tableOrNone = (id, rows, none, make) => $(id).replaceChildren(rows.length ? make() : element("p", { class: "quiet" }, none));

/** Names with values, and what there is to note. */
const listed = (facts) => facts.map(({ name, value, note }) => element(
  "div", {}, element("dt", {}, name), element("dd", {}, value), ...(note ? [element("dd", { class: "quiet" }, note)] : []),
));

let shown = null, live = {}, selected = null;
const figures = new Map(), written = new Map();

function figureOf(chart, titled = true) {
  if (!figures.has(chart.id)) figures.set(chart.id, new Figure());
  figures.get(chart.id).show(chart, shown.words, titled);
  return figures.get(chart.id).made;
}

/** Run `write` if what it shows has changed. */
function ifChanged(key, value, write) {
  const text = JSON.stringify(value);
  if (written.get(key) === text) return;
  written.set(key, text);
  write(value);
}

function place(holder, children) {
  if (children.length !== holder.children.length || children.some((child, k) => holder.children[k] !== child)) holder.replaceChildren(...children);
}

/** Show a document; parts that have not changed stay as they are, with what is open or in focus. */
function show(next) {
  shown = next;
  const { words, state, charts } = next;
  document.title = `${next.figures[0].value} · ${state.heading} · ${next.title}`;
  $("title").textContent = next.title;
  $("board").hidden = false;
  ifChanged("state", state, () => {
    $("opening").dataset.kind = state.kind;
    $("heading").textContent = state.heading;
    $("sentence").textContent = state.sentence;
    $("details").textContent = state.details;
  });
  ifChanged("promise", next.promise, ({ sentence, details }) => {
    $("promise").textContent = sentence;
    $("promise-details").textContent = details;
  });
  const level = charts.find((chart) => chart.id === "level");
  $("level-title").textContent = words.level_title;
  place($("level"), level ? [figureOf(level, false)] : []);
  showLosses(next);
  const more = charts.filter((chart) => chart.id !== "level" && !chart.id.startsWith("loss-"));
  $("more-section").hidden = !more.length;
  place($("more"), more.map((chart) => figureOf(chart)));
  ifChanged("units", next.units, () => showUnits(next));
  ifChanged("alarms", next.alarms, (alarms) => tableOrNone("alarms", alarms, "None so far.", () => table(
    "Alarms, latest first", ["Alarm", capital(words.unit), "Monitor", "What it found", "Raised", "Cleared", "By", "Why"],
    alarms.toReversed().map((each) => [each.number, each.unit, each.monitor, each.message, time(each.raised), each.cleared ? time(each.cleared) : "it stands", each.actor, each.reason]),
    { stack: true, long: 3, classes: alarms.toReversed().map((each) => (each.cleared ? "" : "stands")) },
  )));
  ifChanged("acts", next.acts, (acts) => tableOrNone("acts", acts, "Nobody has acted.", () => table(
    "What people did, latest first", ["When", "Who", "What", "Why"],
    acts.toReversed().map((each) => [time(each.done), each.actor, each.act, each.reason]), { stack: true, long: 3 },
  )));
  ifChanged("assumptions", next.assumptions, (assumptions) => $("assumptions").replaceChildren(...assumptions.map((each) => element(
    "li", { "data-status": each.status }, element("span", { class: "quiet" }, each.status), element("div", {}, element("strong", {}, each.title), element("p", { class: "quiet" }, each.explanation)),
  ))));
  ifChanged("settings", next.settings, (settings) => $("settings").replaceChildren(...listed(settings)));
  ifChanged("figures", shown.figures, (facts) => $("figures").replaceChildren(...listed(facts)));
}

function showLosses({ losses, charts, words }) {
  ifChanged("losses", losses.map((loss) => loss.name), () => $("losses").replaceChildren(...losses.map(() => element("article"))));
  losses.forEach((loss, k) => {
    const article = $("losses").children[k], chart = charts.find((each) => each.id === `loss-${k + 1}`);
    ifChanged(`loss ${k}`, loss, () => {
      article.querySelector("h3")?.remove();
      article.querySelector(":scope > dl")?.remove();
      article.prepend(element("h3", {}, loss.name), element("dl", { class: "facts" }, ...listed(loss.facts)));
    });
    if (chart && article.lastElementChild !== figureOf(chart)) article.append(figureOf(chart));
  });
}

function showUnits({ units, words, losses, left_out: leftOut }) {
  const unit = capital(words.unit);
  $("unit-section").hidden = !units.length;
  $("unit-title").textContent = `One ${words.unit} in detail`;
  $("unit-label").textContent = unit;
  $("units-title").textContent = leftOut ? `The last ${units.length.toLocaleString("en")} of ${(leftOut + units.length).toLocaleString("en")} ${words.unit}s` : `All ${words.unit}s`;
  const follows = selected === null || selected === Number($("unit").options[0]?.value);
  $("unit").replaceChildren(...units.toReversed().map((each) => element("option", { value: each.number }, `${unit} ${each.number}: ${words.level} ${each.level}`)));
  if (units.length) select(follows || !units.some((each) => each.number === selected) ? units.at(-1).number : selected);
  const arms = [["old", words.old], ["new", words.new]];
  const headings = [unit, "Began", capital(words.level), ...arms.flatMap(([, name]) => [words.rows, ...losses.map((loss) => loss.name)].map((each) => `${capital(name.split(" ")[0])}: ${each}`)), "Why"];
  tableOrNone("units", units, "None so far.", () => table(
    `All ${words.unit}s, latest first`, headings,
    units.toReversed().map((each) => [
      each.number, time(each.begun), each.level,
      ...arms.flatMap(([arm]) => [each.rows[arm], ...losses.map((loss) => interval(each.means[arm][loss.name]))]),
      [each.policy, each.note].filter(Boolean).join(": "),
    ]),
    { long: headings.length - 1 },
  ));
}

/** Show one unit in detail. */
function select(chosen) {
  const { units } = shown, k = units.findIndex((each) => each.number === Number(chosen));
  if (k < 0) return;
  const unit = units[k];
  selected = unit.number;
  $("unit").value = unit.number;
  $("earlier").disabled = k === 0;
  $("later").disabled = k === units.length - 1;
  $("unit-note").textContent = unit.note;
  $("unit-warnings").replaceChildren(...unit.warnings.map((each) => element("li", {}, each)));
  $("unit-facts").replaceChildren(...listed(unit.facts));
  place($("unit-curve"), unit.curve ? [figureOf(unit.curve)] : []);
}
$("unit").addEventListener("change", () => select($("unit").value));
$("earlier").addEventListener("click", () => select(Number($("unit").options[$("unit").selectedIndex + 1]?.value)));
$("later").addEventListener("click", () => select(Number($("unit").options[$("unit").selectedIndex - 1]?.value)));

// ---- live: what the service answers, and what people do -----------------------------------------

const EVERY = 1000, FIRST_WAIT = 500, LONGEST_WAIT = 15000, SILENCE = 30000, STORED_KEY = "tether-api-key";
let key = "", seen = -1, offset = 0, heard = 0, wake = null, act = null;
const said = {};

function setKey(value) {
  key = value;
  try {
    if (value) sessionStorage.setItem(STORED_KEY, value);
    else sessionStorage.removeItem(STORED_KEY);
  } catch { /* it is kept in this page alone */ }
  $("forget").hidden = !value;
}

const headers = (more = {}) => (key ? { Authorization: `Bearer ${key}`, ...more } : more);
const sleep = (milliseconds) => new Promise((resolve) => {
  const timer = setTimeout(resolve, milliseconds);
  wake = () => { clearTimeout(timer); resolve(); };
});

/** Tell a screen reader something, once. */
function announce(topic, text) {
  if (said[topic] === text) return;
  said[topic] = text;
  $("announcement").textContent = text ?? "";
}

function setConnection(state, text, aloud = text) {
  if ($("connection").dataset.state === state && $("connection").textContent === text) return;
  $("connection").dataset.state = state;
  $("connection").textContent = text;
  announce("connection", aloud);
}

function setProblem(text) {
  $("problem").textContent = text;
  $("problem").hidden = !text;
}

async function messageOf(response) {
  try { return (await response.json()).error.message; } catch { return `status ${response.status}`; }
}

function askForKey(text) {
  setConnection("waiting", "not connected");
  setProblem(text);
  $("board").hidden = true;
  $("sign-in").hidden = false;
  $("key").focus();
}

/** Take an answer: the document, if it has changed, and what the service says of itself. */
function take(answer) {
  offset = Date.parse(answer.as_of) - Date.now();
  seen = answer.seq;
  live = answer.live;
  setConnection(live.outage ? "outage" : "live", live.outage ? "store unavailable" : "live");
  setProblem(live.outage ?? "");
  if (answer.document) show(answer.document);
  if (!shown) return;
  showOffers();
  const alarm = shown.alarms.find((each) => each.cleared === null);
  announce("alarm", alarm ? `Alarm ${alarm.number}: ${shown.state.sentence}` : said.alarm ? "No alarm stands." : undefined);
}

/** What people may do: halt, resume, end a step, begin a round. */
function offered() {
  const { words, state, units } = shown, halted = state.kind === "alarm", shares = words.level === "share";
  const again = shares ? "a new ramp begins with its smallest share" : "the policy of the present round serves again";
  const offer = (name, title, confirm, isOpen, style, text, body = {}) => ({ name, title, confirm, is_open: isOpen, style, text, body });
  return [
    offer("halt", "Halt", "Halt now", !halted, "danger", `The ${words.old} serves alone, in every process, until somebody resumes.`),
    offer("resume", "Resume", "Resume now", halted, "primary", `This clears the alarm. The monitors start again, and ${again}.`),
    ...(shown.is_by_hand ? [offer("advance", "End this step", "End the step", !halted, "", "The next step begins, with a share from the rows so far. The moment must not depend on losses.", { step: units.at(-1)?.number ?? 0 })] : []),
    ...(live.more?.may_begin ? [offer("begin", "Begin a round", "Begin the round", live.more.beginning === null, "", "An optimized policy is made from the training rows and calibrated, and the next round begins with it. Actions go on meanwhile. The moment must not depend on losses of calibration rows.", { round: units.at(-1)?.number ?? 0 })] : []),
  ];
}

/** A button for each act that is offered; they are made once. */
function showOffers() {
  const offers = offered(), may = live.you?.roles.includes("operate") ?? false;
  ifChanged("offers", offers.map((each) => each.name), (names) => $("offers").replaceChildren(...names.map((name) => {
    const button = element("button", { id: `offer-${name}`, type: "button" });
    button.addEventListener("click", () => openDialog(name));
    return button;
  })));
  for (const each of offers) {
    const button = $(`offer-${each.name}`);
    Object.assign(button, { textContent: `${each.title} …`, className: each.style, disabled: !may || !each.is_open });
  }
  $("acting").hidden = false;
  $("may-not").hidden = may;
  $("you").textContent = live.you?.name ?? "";
}

/** Ask for what has changed, again and again; silence for too long is a lost connection. */
async function follow() {
  let wait = FIRST_WAIT;
  for (;;) {
    let problem = "";
    try {
      const response = await fetch(`v1/document?seen=${seen}`, { headers: headers(), cache: "no-store", signal: AbortSignal.timeout(SILENCE) });
      if (response.status === 401) {
        const text = key ? "The service does not accept this API key." : "";
        setKey("");
        return askForKey(text);
      }
      if (response.status === 403) return askForKey(`Not allowed: ${await messageOf(response)}.`);
      if (response.ok) {
        wait = FIRST_WAIT;
        heard = Date.now();
        $("sign-in").hidden = true;
        take(await response.json());
        await sleep(EVERY);
        continue;
      }
      problem = response.status === 429 ? "Too many requests: the page tries again by itself." : `The service refuses: ${await messageOf(response)}. The page tries again by itself.`;
    } catch { /* the network, or silence: try again */ }
    seen = -1; // a service that comes back may have another store
    setConnection("lost", shown ? `reconnecting, as of ${clock(heard + offset)}` : "connecting …", "The connection is lost; reconnecting.");
    if (problem) setProblem(problem);
    await sleep(wait * (0.75 + Math.random() / 2));
    wait = Math.min(2 * wait, LONGEST_WAIT);
  }
}

function openDialog(name) {
  act = offered().find((each) => each.name === name);
  $("act-title").textContent = act.title;
  $("act-text").textContent = act.text;
  $("act-do").textContent = act.confirm;
  $("act-do").className = act.style || "primary";
  $("act-problem").hidden = true;
  $("reason").value = "";
  $("act").showModal();
  $("reason").focus();
}

async function send(event) {
  event.preventDefault();
  const reason = $("reason").value.trim(), refuse = (text) => {
    $("act-problem").textContent = text;
    $("act-problem").hidden = false;
  };
  if (!reason) return refuse("Please say why.");
  $("act-do").disabled = true;
  try {
    const response = await fetch(`v1/${act.name}`, { method: "POST", headers: headers({ "Content-Type": "application/json" }), body: JSON.stringify({ ...act.body, reason }) });
    if (!response.ok) return refuse(`It was refused: ${await messageOf(response)}.`);
    $("act").close();
    wake?.();
    announce("act", `${act.title}: done at ${clock(Date.now())}.`);
    $("sentence").focus();
  } catch {
    refuse("The service could not be reached: it is not known whether this was done.");
  } finally { $("act-do").disabled = false; }
}

function start() {
  $("act-form").addEventListener("submit", send);
  $("act-cancel").addEventListener("click", () => $("act").close());
  $("sign-in").addEventListener("submit", (event) => {
    event.preventDefault();
    setKey($("key").value.trim());
    $("key").value = "";
    setConnection("waiting", "connecting …");
    follow();
  });
  $("forget").addEventListener("click", () => { setKey(""); location.reload(); });
  addEventListener("online", () => wake?.());
  try { key = sessionStorage.getItem(STORED_KEY) ?? ""; } catch { /* it is asked for again */ }
  setKey(key);
  follow();
}

const inlined = $("document").textContent.trim();
if (inlined) {
  setConnection("report", "report");
  show(JSON.parse(inlined));
} else start();
