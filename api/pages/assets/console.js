// Keeps a page of the console up to date, and gives it keys. Without it the page shows the same, and stays as it is.
"use strict";

const LEAST = 2000; // milliseconds between two updates of a page
const SPREAD = 1000; // milliseconds over which many pages spread the update after one event
const PATIENCE = [2000, 60000]; // milliseconds until a lost stream is tried again: the first time, and at most
const UNITS = [[31536000, "y"], [86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

const live = () => document.getElementById("live");
let waiting = 0; // the timer of the next update
let last = 0; // when the last one was

function refresh() {
  if (waiting || !live()?.dataset.live) return;
  const wait = Math.max(150 + Math.random() * SPREAD, last + LEAST - Date.now());
  waiting = setTimeout(() => {
    waiting = 0;
    if (document.hidden) return; // it is caught up when somebody looks at the page
    last = Date.now();
    htmx.trigger(live(), "live");
  }, wait);
}

function say(text) {
  const place = document.getElementById("connection");
  if (place && place.textContent !== text) place.textContent = text;
}

// A session that ended leads to the sign-in; anything else is tried again.
async function check() {
  try {
    if ((await fetch("/v1/me", {credentials: "same-origin"})).status === 401) location.reload();
  } catch { /* the service is away */ }
}

// An answer that is not this page, such as a failure or the sign-in, must not take its place.
document.addEventListener("htmx:after:request", event => {
  const {response, text} = event.detail.ctx;
  if (response.status === 200 && !response.raw.redirected && text.includes('id="live"')) return;
  event.preventDefault();
  say("not updated");
  check();
  setTimeout(refresh, LEAST * 2);
});
document.addEventListener("htmx:error", () => { say("not connected"); check(); });

// A browser keeps six connections to a host: a page that nobody looks at lets its one go.
let source = null;
let patience = PATIENCE[0];

function follow() {
  const types = (live()?.dataset.live || "").split(" ").filter(Boolean);
  if (!types.length || !window.EventSource || source || document.hidden) return;
  source = new EventSource(`/v1/events?after=${encodeURIComponent(live().dataset.after)}`);
  for (const type of [...types, "reset"]) source.addEventListener(type, refresh);
  source.addEventListener("open", () => { say("live"); patience = PATIENCE[0]; });
  source.addEventListener("error", () => {
    say("not connected");
    if (source?.readyState !== EventSource.CLOSED) return; // the browser tries again by itself
    leave();
    check();
    setTimeout(() => { follow(); refresh(); }, patience);
    patience = Math.min(patience * 2, PATIENCE[1]);
  });
}

function leave() {
  source?.close();
  source = null;
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) return leave();
  follow();
  refresh();
});
window.addEventListener("pagehide", leave);
window.addEventListener("pageshow", event => { if (event.persisted) location.reload(); });

function age(element) {
  const seconds = (Date.now() - Date.parse(element.dateTime)) / 1000;
  const unit = UNITS.find(([length]) => Math.abs(seconds) >= length);
  const told = unit ? `${Math.floor(Math.abs(seconds) / unit[0])} ${unit[1]}` : "";
  const text = !told ? "now" : seconds > 0 ? `${told} ago` : `in ${told}`;
  if (element.textContent !== text) element.textContent = text;
}

document.addEventListener("keydown", event => {
  const typing = event.target.closest?.("input, select, textarea");
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    document.getElementById("search")?.focus();
  }
});

document.addEventListener("change", event => {
  if (event.target.matches?.("form.choose select, form.filter select")) event.target.form.requestSubmit();
});

setInterval(() => document.querySelectorAll("time").forEach(age), 15000);
document.addEventListener("DOMContentLoaded", () => {
  // After a button that answers itself the address is that of the page again, so that a reload repeats nothing.
  const here = live()?.getAttribute("hx-get");
  if (here && location.pathname + location.search !== here) history.replaceState(null, "", here);
  follow();
});
