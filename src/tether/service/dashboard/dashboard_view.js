// What is shown for each part of the document. All text is set as text, never as markup: keys,
// reasons and messages may be anything.
import { draw } from "./dashboard_charts.js";

export const $ = (id) => document.getElementById(id);

/** An element with children: nodes, or anything else as text. */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children.map((child) => (child instanceof Node ? child : String(child))));
  return made;
}

export const number = (value, digits = 3) => {
  if (value === null || value === undefined) return "–";
  if (value !== 0 && Math.abs(value) < 1e-4) return value.toExponential(digits - 1);
  if (Math.abs(value) >= 10 ** digits) return Math.round(value).toLocaleString("en");
  return String(Number(value.toPrecision(digits)));
};
export const percent = (value) => `${number(100 * value)} %`;
export const clock = (iso) => new Date(iso).toLocaleTimeString("en-GB");
const moment = (iso) => new Date(iso).toLocaleString("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit" });
const interval = (mean) => (mean ? `${number(mean.lower)} to ${number(mean.upper)}` : "–");
const time = (iso) => (iso ? element("time", { datetime: iso }, moment(iso)) : "–");
const plural = (count, noun, several = `${noun}s`) => `${Number(count).toLocaleString("en")} ${count === 1 ? noun : several}`;
const duration = (seconds) => {
  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const place = Math.max(0, units.findIndex(([size]) => seconds >= size));
  const [size, name] = seconds >= 1 ? units[place] : units[3];
  const next = units[place + 1];
  const rest = next && seconds >= 1 ? Math.floor((seconds % size) / next[0]) : 0;
  return `${Math.floor(seconds / size)} ${name}${rest ? ` ${rest} ${next[1]}` : ""}`;
};

/** A table in a region that can be scrolled with the keys; on a phone a "stack" has a line for each cell. */
function table(caption, headings, wide, name = "scroll") {
  const head = element("thead", {}, element("tr", {}, ...headings.map((each) => element("th", { scope: "col" }, each))));
  const body = element("tbody");
  const made = element("table", {}, element("caption", { class: "visually-hidden" }, caption), head, body);
  const region = element("div", { class: name, tabindex: "0", role: "region", "aria-label": caption }, made);
  const fill = (rows, names = []) => body.replaceChildren(...rows.map((cells, k) => {
    const row = element("tr", names[k] ? { class: names[k] } : {});
    row.append(...cells.map((cell, column) => {
      const kind = column === wide ? { class: "wide" } : cell instanceof HTMLTimeElement ? { class: "time" } : {};
      return element("td", { "data-heading": headings[column], ...kind }, cell);
    }));
    return row;
  }));
  return { region, fill };
}

/** A table that says so when there is nothing in it. */
function section(id, caption, headings, wide, empty) {
  const made = table(caption, headings, wide, "scroll stack"), none = element("p", { class: "quiet" }, empty);
  $(id).replaceChildren(none, made.region);
  return (rows, names) => {
    none.hidden = rows.length > 0;
    made.region.hidden = rows.length === 0;
    made.fill(rows, names);
  };
}

/** A chart with its title, its explanation and its numbers. */
function figure(title, explanation, headings, heading = element("h4", {}, title)) {
  const numbers = table(`${title}: the numbers`, headings);
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const caption = element("p", { class: "quiet" }, explanation);
  const holder = element("div", { class: "plot" }, svg);
  const made = element(
    "figure", {}, element("figcaption", {}, heading, caption), holder,
    element("details", {}, element("summary", {}, "Show the numbers"), numbers.region),
  );
  let chart = null;
  new ResizeObserver(() => { if (chart && holder.clientWidth) draw(svg, chart); }).observe(holder);
  return {
    made,
    explain: (text) => { caption.textContent = text; },
    show: (next, rows) => {
      chart = next;
      if (holder.clientWidth) draw(svg, chart);
      numbers.fill(rows);
    },
  };
}

/** What is made anew when the words of the page change: tables, the chart of the path, losses. */
let words = null, fillAlarms = null, fillActs = null, fillRecent = null, path = null;
const views = new Map();
function showWords(all) {
  if (words && JSON.stringify(words) === JSON.stringify(all.words)) return false;
  words = all.words;
  for (const each of document.querySelectorAll("[data-word]")) each.textContent = words[each.dataset.word];
  fillAlarms = section("alarms", "Alarms, latest first", ["Alarm", words.unit_title, "Monitor", "What it found", "Raised", "Cleared", "By", "Why"], 3, "None so far.");
  fillActs = section("acts", "What people did, latest first", ["When", "Who", "What", "Why"], 3, words.no_acts);
  const columns = words.recent_columns.map(([, heading]) => heading);
  fillRecent = section("recent", `${words.recent_title}, latest first`, [...columns, "Seen", "Losses so far"], columns.length > 3 ? 2 : 0, "None so far.");
  path = figure(words.path_title, "", [words.unit_title, "Began", words.value_title, "Why"], "");
  $("path").replaceChildren(path.made);
  views.clear();
  $("guardrails").replaceChildren();
  return true;
}

function showPath(all) {
  const { path: steps, level: now, number: present, left_out: leftOut, axis } = all;
  const last = steps.at(-1), fell = last.level.text !== now.text, marks = [];
  let points = [];
  for (const step of steps) {
    const at = step.number, height = step.level.height, isLast = step === last;
    if (!step.falls && !(isLast && fell)) { points.push([at, height], [at + 1, height]); continue; }
    const after = isLast ? now.height : 0;
    marks.push({ kind: "line", points: [...points, [at, height], [at + 0.5, height]] });
    marks.push({ kind: "line", name: "fall", points: [[at + 0.5, height], [at + 0.5, after], [at + 1, after]] });
    points = [];
  }
  marks.push({ kind: "line", points });
  const most = steps.reduce((one, other) => (other.level.height > one.level.height ? other : one)).level;
  const said = `${words.unit_title} ${present}: ${now.text} ${all.outage ? "when the store last answered" : "now"}${fell ? `, ${last.level.text} when it began` : ""}.`;
  path.explain(`${said}${words.path_note ? ` ${words.path_note}` : ""}${leftOut ? ` The first ${plural(leftOut, words.unit)} are left out.` : ""}`);
  path.show({
    title: `${words.value_title} by ${words.unit}`,
    description: `${plural(steps.length, words.unit)}, at most ${most.text}. ${said}`,
    x: [steps[0].number, last.number + 1], shift: 0.5, xLabel: words.unit, levels: [], marks,
    ...(axis.length ? { top: 1, rungs: axis } : { top: Math.min(1, Math.max(1.15 * most.height, 0.001)), format: percent }),
  }, [...steps].reverse().map((step) => [step.number, time(step.begun), step.falls ? `${step.level.text}, then 0 %` : step.level.text, step.why]));
}

/** What the mean of what is tried is over, and what it is in the last unit of that. */
function newSteps({ new_since: since, new_step: step, means }) {
  if (since === null) return `of ${words.unit} ${step}`;
  const last = means.find((each) => each.number === step)?.new;
  return `${since === 1 ? `of all ${words.unit}s` : `since ${words.unit} ${since}`}${last ? `; ${number(last.mean)} in ${words.unit} ${step}` : ""}`;
}

/** One guardrail: its numbers and two charts, made once and then only changed. */
class GuardrailView {
  constructor(name) {
    this.facts = element("dl", { class: "facts" });
    this.monitor = figure(words.monitor_title, "", ["Losses", "Mean", "Lower", "Upper"]);
    this.means = figure(words.means_title, words.means_text, [words.unit_title, ...[words.old, words.new].flatMap((each) => [`${each[0].toUpperCase()}${each.slice(1)}`, "Interval"])]);
    this.nothing = element("p", { class: "quiet" });
    this.charts = element("div", { class: "charts" }, element("div", {}, this.nothing, this.monitor.made), this.means.made);
    this.made = element("article", { class: "guardrail" }, element("h3", {}, name), this.facts, this.charts);
  }

  show(rail, target, outage) {
    const facts = [
      [target === "promise" ? "Promise to keep" : "Tolerated, alpha", number(rail.alpha), `of at most ${number(rail.bound)}`],
      ["Promised now", rail.promise === null || outage ? "nothing" : `≤ ${number(rail.promise)}`, words.all_rows],
      [words.old_title, number(rail.old?.mean), rail.old ? `${interval(rail.old)}, ${plural(rail.old.count, words.row)} of all ${words.unit}s` : "no losses yet"],
      [words.new_title, number(rail.new?.mean), rail.new ? `${interval(rail.new)}, ${plural(rail.new.count, words.row)} ${newSteps(rail)}` : "no losses yet"],
      ["Alarm level", number(rail.alarm_risk), "risk of what is served"],
    ];
    this.facts.replaceChildren(...facts.map(([term, value, note]) => element("div", {}, element("dt", {}, term), element("dd", {}, value), element("dd", { class: "quiet" }, note))));
    this.showMonitor(rail);
    this.showMeans(rail, target);
  }

  showMonitor(rail) {
    const { monitor } = rail, points = monitor?.points ?? [];
    this.monitor.made.hidden = points.length === 0;
    this.charts.classList.toggle("two", points.length > 0);
    this.nothing.hidden = points.length > 0;
    this.nothing.textContent = monitor ? `The monitor has not seen a loss of ${words.monitored} yet.` : rail.without_monitor;
    if (!points.length) return;
    const [seen, mean, lower, upper] = points.at(-1);
    const evidence = `${number(monitor.evidence)} so far; it begins at 1, grows with losses above the line, and ${number(monitor.needed)} raises an alarm`;
    const line = monitor.level === rail.alarm_risk ? `alarm level ${number(monitor.level)}` : `alarm line of ${words.monitored} ${number(monitor.level)}`;
    const state = monitor.alarm_at === null ? `Evidence that the risk is above it: ${evidence}.` : `It raised an alarm at loss ${monitor.alarm_at.toLocaleString("en")}; the evidence grew from loss ${monitor.evidence_from.toLocaleString("en")} on.`;
    this.monitor.explain(`${words.monitor_text} The dashed line is the risk of ${words.monitored} at which an alarm is due${monitor.level === rail.alarm_risk ? "" : ", the alarm level divided by the share"}. ${state}`);
    this.monitor.show({
      title: `Monitor of ${rail.name}`,
      description: `After ${plural(seen, "loss", "losses")} the mean is ${number(mean)}, its expectation between ${number(lower)} and ${number(upper)}; the alarm line of ${words.monitored} is ${number(monitor.level)}. ${state}`,
      x: [0, seen], top: Math.min(rail.bound, Math.max(2 * monitor.level, 1.2 * mean)), xLabel: `losses of ${words.monitored}`, format: (value) => number(value, 2),
      levels: [{ kind: "alarm", value: monitor.level, label: line }],
      marks: [
        { kind: "band", lower: points.map(([n, , low]) => [n, low]), upper: points.map(([n, , , high]) => [n, high]) },
        { kind: "line", points: points.map(([n, value]) => [n, value]) },
        ...(monitor.alarm_at === null ? [] : [{ kind: "upright", name: "alarm", at: monitor.alarm_at }]),
      ],
    }, [...points].reverse().map(([n, ...rest]) => [n.toLocaleString("en"), ...rest.map((each) => number(each))]));
  }

  showMeans(rail, target) {
    const known = rail.means.filter((step) => step.old || step.new), side = 0.12;
    this.means.made.hidden = known.length === 0;
    if (!known.length) return;
    const of = (system, shift) => known.filter((step) => step[system]).map((step) => [step.number + shift, step[system].mean, step[system].lower, step[system].upper]);
    const old = of("old", -side), fresh = of("new", side);
    const bars = (points, name) => ({ kind: "bars", name, ranges: points.map(([n, , low, high]) => [n, low, high]) });
    const last = known.at(-1);
    const say = (system) => (last[system] ? `${words[system]} ${number(last[system].mean)} (${interval(last[system])})` : "");
    this.means.show({
      title: `Mean ${rail.name} ${words.means_of}`,
      description: `${plural(known.length, words.unit)}; ${target} is ${number(rail.alpha)}. ${words.unit_title} ${last.number}: ${[say("new"), say("old")].filter(Boolean).join(", ")}.`,
      x: [known[0].number - 0.5, last.number + 0.5], xLabel: words.unit, format: (value) => number(value, 2), room: 100,
      top: Math.min(1.02 * rail.bound, Math.max(3 * rail.alpha, ...[...old, ...fresh].map(([, mean]) => 1.15 * mean))),
      levels: [{ kind: "level", value: rail.alpha, label: `${target} ${number(rail.alpha)}` }],
      marks: [bars(old, "bar old"), bars(fresh, "bar"), { kind: "dots", name: "ring", points: old }, { kind: "dots", name: "dot", points: fresh }],
    }, [...known].reverse().map((step) => [step.number, number(step.old?.mean), interval(step.old), number(step.new?.mean), interval(step.new)]));
  }
}

function showGuardrails({ guardrails, target, outage }) {
  for (const rail of guardrails) {
    if (!views.has(rail.name)) {
      views.set(rail.name, new GuardrailView(rail.name));
      $("guardrails").append(views.get(rail.name).made);
    }
    views.get(rail.name).show(rail, target, outage);
  }
}

/** The state; without the store that comes first, and what was last known of it after. */
function showState({ state, level, number: present, promise, title, outage }) {
  const isOff = state.kind === "alarm" || outage !== null;
  const value = outage ? (level.text.endsWith("%") ? "0 %" : "0") : level.text;
  $("opening").dataset.kind = outage ? "alarm" : state.kind;
  $("heading").textContent = outage ? outage.heading : state.heading;
  $("sentence").textContent = outage ? outage.sentence : state.sentence;
  $("details").textContent = outage ? outage.details : state.details;
  $("note").hidden = !state.note;
  $("note").textContent = state.note;
  $("promise").textContent = outage ? outage.promise : promise.sentence;
  $("promise-details").textContent = outage ? "" : promise.details;
  $("value").textContent = value;
  $("value-note").textContent = outage ? `${level.text} when the store last answered` : isOff ? "an alarm stands" : words.value_note;
  $("step").textContent = present;
  $("title").textContent = title;
  document.title = `${isOff ? "⚠ " : ""}${words.value_prefix}${value} · ${title} · tether`;
}

/** How far the step is; called again as time passes. `now` is the server's time. */
export function showProgress({ progress }, now) {
  const done = progress.done ?? (now - Date.parse(progress.begun)) / 1000;
  const show = (value) => (progress.unit === "seconds" ? duration(Math.max(0, value)) : plural(value, words.row));
  $("progress").hidden = progress.length === null || progress.is_paused;
  if (progress.length !== null) $("progress").value = Math.min(1, done / progress.length);
  if (progress.is_paused) $("progress-note").textContent = "does not end while an alarm stands";
  else if (progress.length === null) $("progress-note").textContent = `${show(done)} so far; ${words.ends}`;
  else $("progress-note").textContent = `${show(Math.min(done, progress.length))} of ${show(progress.length)}`;
}

function showService({ service }) {
  const bad = service.outage !== null;
  $("store").textContent = bad ? "unavailable" : "available";
  $("store").classList.toggle("bad", bad);
  $("store-note").textContent = bad ? words.store_lost : service.is_read ? `tether ${service.version}` : "what is shown is not up to date";
  $("rate").textContent = number(service.decisions_per_second, 2);
}

const showUnstored = ({ unstored }) => {
  $("unstored").hidden = !unstored;
  $("unstored").textContent = `${plural(unstored, "answer")} without it so far, which count nowhere`;
};
const showAlarms = ({ alarms }) => fillAlarms(
  alarms.map((each) => [each.number, each.round, each.monitor, each.message, time(each.raised), each.cleared ? time(each.cleared) : "it stands", each.actor ?? "–", each.reason ?? "–"]),
  alarms.map((each) => (each.cleared ? "" : "stands")),
);
const showAssumptions = ({ assumptions }) => $("assumptions").replaceChildren(...assumptions.map((each) => element(
  "li", {}, element("span", { class: "quiet" }, each.status), element("div", {}, element("strong", {}, each.title), element("p", { class: "quiet" }, each.explanation)),
)));
const showActs = ({ acts }) => fillActs(acts.map((each) => [time(each.done), each.actor, each.act, each.reason]));
const showRecent = ({ recent }) => fillRecent(recent.map((each) => [
  ...words.recent_columns.map(([name]) => each[name]), each.seen ? time(each.seen) : "earlier",
  Object.entries(each.losses).map(([name, loss]) => `${name} ${number(loss)}`).join(", ") || "none",
]));

const SHOWN_BY = [
  [["state", "level", "number", "promise", "title", "outage"], showState],
  [["path", "level", "left_out", "axis", "outage"], showPath],
  [["guardrails", "target", "outage"], showGuardrails],
  [["service"], showService],
  [["unstored"], showUnstored],
  [["alarms"], showAlarms],
  [["acts"], showActs],
  [["assumptions"], showAssumptions],
  [["recent"], showRecent],
];

/** Show what has changed; `all` has every part, and of the service whether its store is lost. */
export function show(all, changed) {
  const outage = all.service.outage;
  if (JSON.stringify(outage) !== JSON.stringify(all.outage)) changed = { ...changed, outage };
  all.outage = outage;
  const isAnew = "words" in changed && showWords(all);
  for (const [parts, shows] of SHOWN_BY) {
    if (parts.some((part) => isAnew || part in changed) && parts.every((part) => part in all)) shows(all);
  }
}
