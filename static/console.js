// What Ascertain's pages do beyond plain HTML. Everything here is a convenience: each page is whole without it.
"use strict";

const page = document.documentElement;
const POLL_MS = 5000;
page.dataset.js = "";

// ---- small things ------------------------------------------------------------------------------------------------

const byId = (id) => document.getElementById(id);
const words = (text) => { const box = byId("live-words"); if (box) box.textContent = text; };

let toastEnds;
function toast(text, link) {
  const box = byId("toast");
  if (!box) return;
  box.textContent = text;
  if (link) {
    const a = document.createElement("a");
    a.href = link.href; a.textContent = link.text; a.target = "_blank"; a.rel = "noopener";
    box.append(" ", a);
  }
  clearTimeout(toastEnds);
  if (!link) toastEnds = setTimeout(() => { box.textContent = ""; }, 4000);
}

const signedOut = () => toast("You are signed out. Nothing you wrote is lost.", { href: "/sign-in/", text: "Sign in in a new tab, then go on here." });

// ---- times: the words of recovery/web/moments.py, kept fresh -------------------------------------------------------

function span(s) {
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} m`;
  if (s < 172800) return `${Math.floor(s / 3600)} h`;
  return `${Math.floor(s / 86400)} d`;
}
function told(shape, seconds) {
  const length = span(Math.abs(seconds));
  if (shape === "age") return span(Math.max(-seconds, 0));
  if (shape === "ago") return seconds > -5 ? "just now" : `${length} ago`;
  if (seconds > 0) return `in ${length}`;
  return shape === "in" ? "now" : `passed ${length} ago`;
}
let clockOffset = 0; // server minus browser, in ms, from the Date header of polls
const inBrowsersZone = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short" });
function freshenTimes(root = document) {
  // The person's zone is the browser's unless their preferences name one; then the server has written it.
  if (page.dataset.zone === "") for (const time of root.querySelectorAll("time[title]:not([data-zoned])")) {
    const at = new Date(time.dateTime);
    time.title = inBrowsersZone.format(at);
    time.dataset.zoned = "";
    if (time.dataset.shape === "clock") time.textContent = at.toLocaleTimeString("en-GB");
  }
  const now = Date.now() + clockOffset;
  for (const time of root.querySelectorAll('time[data-shape]:not([data-shape="clock"])')) {
    const text = told(time.dataset.shape, Math.trunc((Date.parse(time.dateTime) - now) / 1000));
    if (time.textContent !== text) time.textContent = text;
  }
}
setInterval(() => { if (!document.hidden) freshenTimes(); }, 5000);

// ---- polling: every 5 s while somebody looks; 304 swaps nothing -----------------------------------------------------

async function look() {
  const box = document.querySelector("[data-live]");
  if (!box || !box.dataset.live || document.hidden) return;
  const rows = box.querySelectorAll("tr[data-version]");
  const url = new URL(box.dataset.live, location.origin);
  if (box.id === "list") url.searchParams.set("shown", Array.from(rows, (r) => `${r.id.slice(2)}.${r.dataset.version}`).join(","));
  const headers = { "X-Live": "1" };
  if (box.dataset.etag) headers["If-None-Match"] = box.dataset.etag;
  let answer;
  try {
    answer = await fetch(url, { headers, cache: "no-store", credentials: "same-origin", redirect: "manual" });
  } catch { return; } // the network is away; the next look tells
  if (answer.status === 401) { signedOut(); return; }
  const date = Date.parse(answer.headers.get("Date") || "");
  if (date) clockOffset = Math.abs(date - Date.now()) > 2000 ? date - Date.now() : 0;
  if (answer.status === 304 && date) stillTrueAt(new Date(date));
  if (answer.status !== 200 || !box.isConnected) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  if (!box.isConnected) return;
  box.dataset.etag = answer.headers.get("ETag") || "";
  if (box.id === "list") takeRows(box, fresh); else takeParts(box, fresh);
  freshenTimes(box);
}

// Unchanged numbers are true as of now: their sentence says so.
function stillTrueAt(at) {
  const clock = document.querySelector("#scope time[data-shape=clock]");
  if (!clock) return;
  const zone = page.dataset.zone || undefined;
  clock.dateTime = at.toISOString();
  clock.textContent = at.toLocaleTimeString("en-GB", { timeZone: zone });
  clock.title = at.toLocaleString("en-GB", { timeZone: zone, dateStyle: "medium", timeStyle: "long" });
}

function replaceKeepingFocus(old, fresh) {
  const had = old.contains(document.activeElement) ? document.activeElement : null;
  const again = had && (had.id ? `#${CSS.escape(had.id)}` : had.matches(".open") ? ".open" : null);
  for (const details of old.querySelectorAll("details[id]")) {
    const same = fresh.querySelector(`#${CSS.escape(details.id)}`);
    if (same) same.open = details.open;
  }
  old.replaceWith(fresh);
  if (again) fresh.querySelector(again)?.focus({ preventScroll: true });
  if (window.htmx) window.htmx.process(fresh);
}

function takeRows(box, fresh) {
  for (const id of ["scope", "fed", "tabs", "newer"]) {
    const old = byId(id), now = fresh.getElementById(id);
    if (old && now) replaceKeepingFocus(old, document.adoptNode(now));
  }
  let changed = 0;
  for (const row of Array.from(fresh.querySelectorAll("#changed > tr"))) {
    const old = byId(row.id);
    if (!old || (old.dataset.version === row.dataset.version && old.classList.contains("has-left"))) continue;
    const now = document.adoptNode(row);
    const tick = now.querySelector(".tick");
    if (tick) tick.checked = Boolean(old.querySelector(".tick")?.checked);
    now.classList.add("has-changed");
    replaceKeepingFocus(old, now);
    freshenPeek(now);
    changed += 1;
  }
  for (const key of (fresh.getElementById("gone")?.dataset.keys || "").split(",")) byId(`r-${key}`)?.classList.add("has-left");
  const newer = byId("newer");
  if (!newer.hidden) words(`${newer.textContent.trim().split(" ")[0]} new operations wait.`);
  else if (changed) words(`${changed} rows changed.`);
}

function isTyped(part) {
  if (part.querySelector("details.answer[open]") && part.contains(document.activeElement)) return true;
  return Array.from(part.querySelectorAll("textarea, input.input")).some((field) => field.value !== field.defaultValue);
}

function takeParts(box, fresh) {
  const next = fresh.getElementById(box.id);
  if (!next) return;
  const parts = Array.from(next.querySelectorAll("[data-part]"));
  const stays = new Set(parts.map((part) => part.id)), behind = parts.map((part) => part.previousElementSibling?.id);
  parts.forEach((now, at) => {
    const old = byId(now.id);
    if (!old) { // a part that was not there before: stand it behind its neighbour
      const before = behind[at] && byId(behind[at]);
      if (before) before.after(document.adoptNode(now)); else if (now.parentElement === next) box.prepend(document.adoptNode(now));
      return;
    }
    if ((now.id === "decide" || "keepsTyping" in old.dataset) && isTyped(old)) {
      if (now.id === "decide" && !byId("decide-moved")) {
        const note = document.createElement("p");
        note.id = "decide-moved"; note.className = "notice tone-amber"; note.setAttribute("role", "status");
        note.textContent = "It changed while you are writing. See the history; what you record now will first be shown against it.";
        old.prepend(note);
      }
      return;
    }
    replaceKeepingFocus(old, document.adoptNode(now));
  });
  for (const old of Array.from(box.querySelectorAll("[data-part]"))) if (!stays.has(old.id) && !isTyped(old)) old.remove();
  words(box.dataset.words || "This operation changed.");
}

setInterval(look, POLL_MS);
document.addEventListener("visibilitychange", () => { if (!document.hidden) { freshenTimes(); look(); } });

function loadNewer() {
  const box = byId("list");
  if (!box || byId("newer")?.hidden) return;
  window.htmx.ajax("GET", box.dataset.here, { target: "#list", swap: "outerHTML" });
}
document.addEventListener("click", (event) => {
  if (event.target.closest("#newer a")) { event.preventDefault(); loadNewer(); }
  const opens = event.target.closest("[data-opens]");
  if (opens) byId(opens.dataset.opens).showModal();
  const closes = event.target.closest("[data-closes]");
  if (closes) byId(closes.dataset.closes).close();
  const copies = event.target.closest("[data-copies]");
  if (copies) copy(byId(copies.dataset.copies).textContent);
  for (const menu of document.querySelectorAll("details.menu[open]")) if (!menu.contains(event.target)) menu.open = false;
});

async function copy(text) {
  try { await navigator.clipboard.writeText(text); toast(`Copied ${text}`); }
  catch { toast("This browser does not let pages copy. Select the id and copy it."); }
}

// ---- keys -----------------------------------------------------------------------------------------------------------

const links = () => Array.from(document.querySelectorAll("#rows a.open"));
function move(step) {
  const all = links();
  if (!all.length) return;
  const here = all.findIndex((a) => a.closest("tr").contains(document.activeElement));
  const at = here < 0 ? (step > 0 ? Math.max(all.findIndex((a) => a.closest("tr").id === sessionStorage.getItem("row")), 0) : all.length - 1) : Math.min(Math.max(here + step, 0), all.length - 1);
  all[at].focus();
  all[at].closest("tr").scrollIntoView({ block: "nearest" });
  if (byId("peek") && !byId("peek").hidden) openPeek(all[at].closest("tr[data-peek]"));
}
function openAnswer(key) {
  const details = document.querySelector(`details.answer[data-key="${key}"]`);
  if (!details) return false;
  details.open = true;
  details.querySelector(".input, a.button")?.focus();
  details.scrollIntoView({ block: "nearest" });
  return true;
}
function openFold(key) {
  const details = document.querySelector(`details.fold-out[data-key="${key}"]`);
  if (!details) return false;
  details.open = true;
  details.querySelector("select, input:not([type=hidden]), textarea")?.focus();
  details.scrollIntoView({ block: "nearest" });
  return true;
}
// One answer open at a time. Not by the `name` attribute: a fragment is put in before the old one is taken out, and the
// browser would close the newcomer.
document.addEventListener("toggle", (event) => {
  if (!event.target.matches?.("details.answer[open]")) return;
  for (const other of document.querySelectorAll("details.answer[open]")) if (other !== event.target) other.open = false;
}, true);
const PLACES = { m: "/", q: "/queue/", j: "/bulk/" };
let leader = 0, star = 0; // when g and * were pressed: each waits for a second key
// Ticks what the cursor is on: the other way round, or as `as` says.
function tickHere(as) {
  const tick = document.activeElement.closest("#rows tr")?.querySelector(".tick");
  if (!tick) return false;
  tick.checked = as ?? !tick.checked;
  countTicks();
  return true;
}
function ticksBy(key) {
  if (key === "m") { document.querySelector("#bulk button[name=all]")?.click(); return true; }
  if (key !== "a") return false;
  for (const tick of document.querySelectorAll("#rows .tick")) tick.checked = true;
  countTicks();
  return true;
}
document.addEventListener("keydown", (event) => {
  const field = event.target.closest("input:not(.tick), textarea, select, [contenteditable]");
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    const form = event.target.closest("form[data-commits]") || document.querySelector("details.answer[open] form[data-commits]");
    if (form) { event.preventDefault(); form.requestSubmit(); }
    return;
  }
  if (event.key === "Escape") {
    const menu = document.querySelector("details.menu[open]");
    if (menu) { menu.open = false; menu.querySelector("summary").focus(); return; }
    const answer = event.target.closest("details.answer[open]");
    if (answer) { answer.open = false; answer.querySelector("summary").focus(); return; }
    if (field) { field.blur(); return; }
    if (closePeek()) return;
    const ticked = document.querySelector(".tick:checked");
    if (ticked) { byId("bulk").reset(); return; }
    document.querySelector("a[data-clear]")?.click();
    return;
  }
  if (field || event.ctrlKey || event.metaKey || event.altKey || page.dataset.keys === "off" || document.querySelector("dialog[open]")) return;
  const led = Date.now() - leader < 1200, starred = Date.now() - star < 1200;
  leader = star = 0;
  if (led) { if (PLACES[event.key]) { event.preventDefault(); location.href = PLACES[event.key]; } return; }
  if (starred) { if (ticksBy(event.key)) event.preventDefault(); return; }
  switch (event.key) {
    case "g": leader = Date.now(); return;
    case "*": star = Date.now(); break;
    case "x": if (!tickHere()) return; break;
    case "J": case "K": if (!tickHere(true)) return; move(event.key === "J" ? 1 : -1); tickHere(true); break;
    case "j": move(1); break;
    case "k": move(-1); break;
    case " ": if (event.target.closest(".tick, button, summary") || !openPeek(event.target.closest("tr[data-peek]"))) return; break;
    case "/": if (!byId("q")) return; byId("q").focus(); byId("q").select(); break;
    case "?": byId("help")?.showModal(); break;
    case ".": loadNewer(); break;
    case "A": case "h": if (!openFold(event.key)) return; break;
    case "c": if (!document.querySelector('[data-focus-key="c"]')) return; document.querySelector('[data-focus-key="c"]').focus(); break;
    case "a": case "z": case "v": case "y": document.querySelector(`button[data-key="${event.key}"]`)?.click(); break;
    case "1": case "2": case "3": case "4": case "5": case "6": case "7": if (!openAnswer(event.key)) return; break;
    case "[": case "]": if (!document.querySelector(`a[data-key="${event.key}"]`)) return; document.querySelector(`a[data-key="${event.key}"]`).click(); break;
    default: return;
  }
  event.preventDefault();
});

// ---- queue: the summary beside the list ----------------------------------------------------------------------------

let peekLater;
function openPeek(row) {
  if (!row || !byId("peek")) return false;
  clearTimeout(peekLater);
  const open = byId("peek");
  if (!open.hidden && open.dataset.row === row.id) return closePeek();
  // Who walks down the list sees the summary where they stop, not of every row between.
  peekLater = setTimeout(() => window.htmx.ajax("GET", row.dataset.peek, { target: "#peek", swap: "outerHTML" }), open.hidden ? 0 : 120);
  return true;
}
function freshenPeek(row) { // what is being written beside the list stays as it is
  const open = byId("peek");
  if (open && !open.hidden && open.dataset.row === row.id && row.dataset.peek && !isTyped(open) && !open.contains(document.activeElement)) window.htmx.ajax("GET", row.dataset.peek, { target: "#peek", swap: "outerHTML" });
}
document.addEventListener("desk", () => { if (byId("list")) look(); }); // an act beside the list shows in its row at once
function closePeek() {
  const open = byId("peek");
  clearTimeout(peekLater);
  if (!open || open.hidden) return false;
  const row = byId(open.dataset.row || "");
  open.hidden = true;
  open.replaceChildren();
  byId("list").inert = false;
  if (row && !document.querySelector("#rows :focus")) row.querySelector("a.open").focus({ preventScroll: true });
  return true;
}
document.addEventListener("click", (event) => {
  if (event.target.closest("[data-closes-peek]")) { event.preventDefault(); closePeek(); }
});
document.addEventListener("htmx:afterSwap", (event) => {
  if (event.detail.target?.id !== "peek") return;
  const by = event.detail.requestConfig?.elt, sheet = matchMedia("(max-width: 1099px)").matches;
  byId("list").inert = sheet; // where there is no room beside the list, the summary lies over it
  if (sheet || by?.classList?.contains("peek-link")) byId("peek").querySelector("h2")?.focus({ preventScroll: true });
  else words(byId("peek").getAttribute("aria-label"));
});

// ---- queue: what is ticked ------------------------------------------------------------------------------------------

function countTicks() {
  const box = document.querySelector("[data-ticked]");
  if (!box) return;
  const count = document.querySelectorAll(".tick:checked").length;
  box.textContent = count === 1 ? "1 selected" : `${count} selected`;
}
document.addEventListener("change", (event) => { if (event.target.matches(".tick")) countTicks(); });
document.addEventListener("reset", () => setTimeout(countTicks));

// ---- queue: how the word under the caret could go on ----------------------------------------------------------------

let askLater, asked = 0;
const optionsOf = (input) => byId(`${input.id}-options`);
function closeOptions(input) {
  clearTimeout(askLater);
  asked += 1;
  optionsOf(input)?.remove();
  input.setAttribute("aria-expanded", "false");
  input.removeAttribute("aria-activedescendant");
}
async function offerOptions(input) {
  const mine = ++asked;
  const url = new URL(input.closest("[data-completes]").dataset.completes, location.origin);
  url.searchParams.set("q", input.value);
  url.searchParams.set("at", input.selectionStart);
  let told;
  try { told = await (await fetch(url, { headers: { "X-Live": "1" }, credentials: "same-origin" })).json(); } catch { return; }
  if (mine !== asked || document.activeElement !== input) return;
  closeOptions(input);
  if (!told.options.length) return;
  const list = document.createElement("ul");
  list.id = `${input.id}-options`; list.className = "completions"; list.setAttribute("role", "listbox"); list.setAttribute("aria-label", "Ways to go on");
  told.options.forEach((option, at) => {
    const item = document.createElement("li"), text = document.createElement("span"), tip = document.createElement("span");
    item.id = `${list.id}-${at}`; item.setAttribute("role", "option"); item.setAttribute("aria-selected", "false");
    text.className = "mono"; text.textContent = option.text; tip.className = "tip"; tip.textContent = option.tip;
    item.append(text, tip);
    item.addEventListener("mousedown", (event) => { event.preventDefault(); takeOption(input, item); });
    list.append(item);
  });
  list.dataset.from = told.from; list.dataset.to = told.to;
  input.after(list);
  input.setAttribute("aria-expanded", "true");
  input.setAttribute("aria-controls", list.id);
}
function takeOption(input, item) {
  const list = optionsOf(input), text = item.firstChild.textContent;
  const whole = !text.endsWith(":");
  input.setRangeText(text + (whole && !input.value.slice(list.dataset.to).startsWith(" ") ? " " : ""), Number(list.dataset.from), Number(list.dataset.to), "end");
  closeOptions(input);
  if (!whole) offerOptions(input);
}
document.addEventListener("input", (event) => {
  const input = event.target;
  if (!input.closest("[data-completes]")) return;
  clearTimeout(askLater);
  askLater = setTimeout(() => offerOptions(input), 120);
});
document.addEventListener("focusin", (event) => {
  if (event.target.closest("[data-completes]")) event.target.setAttribute("role", "combobox");
});
document.addEventListener("focusout", (event) => { if (event.target.closest("[data-completes]")) closeOptions(event.target); });
document.addEventListener("keydown", (event) => {
  const input = event.target, list = input.closest?.("[data-completes]") && optionsOf(input);
  if (!list) return;
  const all = Array.from(list.children), here = all.findIndex((item) => item.getAttribute("aria-selected") === "true");
  if (event.key === "Escape") closeOptions(input);
  else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    const next = all[(here + (event.key === "ArrowDown" ? 1 : here < 0 ? 0 : -1) + all.length) % all.length];
    for (const item of all) item.setAttribute("aria-selected", item === next);
    input.setAttribute("aria-activedescendant", next.id);
    next.scrollIntoView({ block: "nearest" });
  } else if ((event.key === "Enter" || event.key === "Tab") && here >= 0) takeOption(input, all[here]);
  else return;
  event.preventDefault();
  event.stopPropagation();
}, true);

// ---- bulk: jobs and the drawer beside the queue, every second while one runs ------------------------------------------

async function lookAtJobs() {
  let soon = false;
  for (const box of document.hidden ? [] : document.querySelectorAll("[data-poll]")) {
    const headers = { "X-Live": "1", ...(box.dataset.etag && { "If-None-Match": box.dataset.etag }) };
    soon ||= "running" in box.dataset;
    let answer;
    try { answer = await fetch(box.dataset.poll, { headers, cache: "no-store", credentials: "same-origin", redirect: "manual" }); } catch { continue; }
    if (answer.status === 401) { signedOut(); continue; }
    if (answer.status !== 200 || !box.isConnected) continue;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById(box.id);
    if (!fresh || !box.isConnected) continue;
    const now = document.adoptNode(fresh), ran = "running" in box.dataset;
    now.dataset.etag = answer.headers.get("ETag") || "";
    replaceKeepingFocus(box, now);
    freshenTimes(now);
    soon ||= "running" in now.dataset;
    if (ran && !("running" in now.dataset)) words(`It has ended. ${now.dataset.words}`);
  }
  setTimeout(lookAtJobs, soon ? 1000 : POLL_MS);
}
lookAtJobs();

// ---- where the list was ---------------------------------------------------------------------------------------------

document.addEventListener("focusin", (event) => {
  const row = event.target.closest("#rows tr[id]");
  if (row) sessionStorage.setItem("row", row.id);
});
if (byId("list")) sessionStorage.setItem("list", location.pathname + location.search);
else if (byId("back") && sessionStorage.getItem("list")) byId("back").href = sessionStorage.getItem("list");

// ---- htmx -----------------------------------------------------------------------------------------------------------

document.addEventListener("htmx:responseError", (event) => {
  if (event.detail.xhr.status === 401) signedOut();
  else if (event.detail.xhr.status === 403) toast("This is not allowed for you. Nothing was changed; reload the page to see why.");
  else toast("That did not work, and it may or may not have been recorded. Look at the history before you try again.");
});
document.addEventListener("htmx:sendError", () => toast("The server cannot be reached. It may or may not have been recorded: look at the history before you try again."));
document.addEventListener("htmx:afterSettle", (event) => {
  freshenTimes();
  const target = event.detail.target;
  if (target.id === "list" || byId("list")) sessionStorage.setItem("list", location.pathname + location.search);
  const remembered = byId("rows") && byId(sessionStorage.getItem("row") || "");
  if (event.detail.requestConfig?.path === byId("list")?.dataset.here && remembered) remembered.querySelector("a.open").focus({ preventScroll: true });
  const notice = byId("notice");
  const wrong = document.querySelector("#operation [aria-invalid=true]");
  if (wrong) wrong.focus(); else if (notice) notice.focus();
});
freshenTimes();
