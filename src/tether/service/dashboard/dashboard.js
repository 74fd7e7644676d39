// The page's connection to the service, and what people do with it. The document comes as
// server-sent events that are read with fetch, since EventSource cannot send an API key.
import { $, clock, element, show, showProgress } from "./dashboard_view.js";

const FIRST_WAIT = 500, LONGEST_WAIT = 15000, SILENCE = 30000;
const STORED_KEY = "tether-api-key";
let key = "", all = {}, you = null, offset = 0, heard = 0, said = {}, wake = null;

try { key = sessionStorage.getItem(STORED_KEY) ?? ""; } catch { /* it is asked for again */ }

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
  $("announcement").textContent = text;
}

function setConnection(state, text, aloud = text) {
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

/** Take what changed, and show it. */
function take({ as_of: asOf, parts }) {
  offset = Date.parse(asOf) - Date.now();
  Object.assign(all, parts);
  if (parts.you) you = parts.you;
  const { outage } = all.service, connection = outage ? "outage" : "live";
  if ($("connection").dataset.state !== connection) setConnection(connection, outage ? "store unavailable" : "live", outage ? outage.sentence : "live");
  if (!("state" in all)) {
    setProblem(outage ? `${outage.sentence} ${outage.details} The rest of the page comes with the store.` : "The store has not answered yet: nothing can be shown.");
    return;
  }
  setProblem("");
  $("board").hidden = false;
  show(all, parts);
  showProgress(all, Date.now() + offset);
  showButtons();
  const alarm = all.alarms.find((each) => each.cleared === null);
  announce("alarm", alarm ? `Alarm ${alarm.number}: ${all.state.sentence}` : said.alarm ? "No alarm stands." : undefined);
}

/** A button for each act that the document offers; they are made once. */
function showButtons() {
  const may = you?.roles.includes("operate") ?? false;
  const names = all.offers.map((each) => each.name);
  if ([...$("offers").children].map((each) => each.id).join() !== names.join()) {
    $("offers").replaceChildren(...all.offers.map((each) => {
      const button = element("button", { id: each.name, type: "button", class: each.style }, `${each.title} …`);
      button.addEventListener("click", () => openDialog(each.name));
      return button;
    }));
  }
  for (const each of all.offers) $(each.name).disabled = !may || !each.is_open;
  $("you").textContent = you?.name ?? "";
  $("may-not").hidden = may;
  $("may-not").textContent = "To halt and resume, an API key needs the role operate.";
}

/** Read events until the stream ends; silence for too long is an end too. */
async function follow(response, control) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "", timer = null;
  const alive = () => { clearTimeout(timer); timer = setTimeout(() => control.abort(), SILENCE); };
  try {
    for (alive(); ; alive()) {
      const { done, value } = await reader.read();
      if (done) return;
      heard = Date.now();
      const events = (text + value).split("\n\n");
      text = events.pop();
      for (const event of events) {
        if (event.startsWith("data:")) take(JSON.parse(event.slice(5)));
      }
    }
  } finally { clearTimeout(timer); }
}

async function connect() {
  let wait = FIRST_WAIT;
  for (;;) {
    const control = new AbortController();
    let problem = "";
    try {
      const response = await fetch("v1/events", { headers: headers(), cache: "no-store", signal: control.signal });
      if (response.status === 401) {
        const text = key ? "The service does not accept this API key." : "";
        setKey("");
        return askForKey(text);
      }
      if (response.status === 403) return askForKey(`Not allowed: ${await messageOf(response)}.`);
      if (response.ok) {
        wait = FIRST_WAIT;
        $("sign-in").hidden = true;
        setProblem("");
        setConnection("waiting", "loading …");
        await follow(response, control);
      } else if (response.status === 429) problem = "Too many requests: the page tries again by itself.";
      else problem = `The service refuses: ${await messageOf(response)}. The page tries again by itself.`;
    } catch { /* the network, or silence: try again */ }
    control.abort();
    const asOf = "state" in all ? `reconnecting, as of ${clock(heard + offset)}` : "connecting …";
    if ($("connection").dataset.state !== "lost") setConnection("lost", asOf, "The connection is lost; reconnecting.");
    if (problem) setProblem(problem);
    await sleep(wait * (0.75 + Math.random() / 2));
    wait = Math.min(2 * wait, LONGEST_WAIT);
  }
}

let act = null;

function openDialog(name) {
  act = all.offers.find((each) => each.name === name);
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
    const body = JSON.stringify(act.number_name ? { [act.number_name]: all.number, reason } : { reason });
    const response = await fetch(`v1/${act.name}`, { method: "POST", headers: headers({ "Content-Type": "application/json" }), body });
    if (!response.ok) return refuse(`It was refused: ${await messageOf(response)}.`);
    $("act").close();
    announce("act", `${act.title}: done at ${clock(Date.now())}.`);
    $("sentence").focus();
  } catch {
    refuse("The service could not be reached: it is not known whether this was done.");
  } finally { $("act-do").disabled = false; }
}

$("act-form").addEventListener("submit", send);
$("act-cancel").addEventListener("click", () => $("act").close());
$("sign-in").addEventListener("submit", (event) => {
  event.preventDefault();
  setKey($("key").value.trim());
  $("key").value = "";
  all = {};
  setConnection("waiting", "connecting …");
  connect();
});
$("forget").addEventListener("click", () => { setKey(""); location.reload(); });
addEventListener("online", () => wake?.());
setInterval(() => { if ("progress" in all && all.progress.unit === "seconds") showProgress(all, Date.now() + offset); }, 1000);
setKey(key);
connect();
