// Keeps the page fresh: looks again when the server announces that something has changed. Where no
// announcement comes, it asks every two seconds. A hidden page does nothing.
import { Channel } from "./channel.js";
import { fetchFragment, show } from "./patch.js";
import { offerLogin, tellAway } from "./toast.js";

const ASK_MS = 2000;
// What a busy server has put off for longer is old.
const STALE_MS = 12_000;
const TURN_MS = 500;
// A look that takes longer is not answered, where no announcements come either; it is given up after the second
// time, and after the third one always.
const SLOW_MS = 3000;
const HANGS_MS = 8000;
const LONGEST_MS = 30_000;
// Seconds until a server that does not answer is asked again, the last ones again and again.
const TRIES_S = [1, 2, 4];
// The server says so itself, or the proxy before it.
const AWAY = [0, 502, 503, 504];

let etag = "";
let isStopped = false;
let isLooking = false;
// A look was not answered, or could not begin: there may be news that nobody announces again.
let isBehind = false;
/** @type {string | null} */
let again = null;
let isHeard = false;
// The session has ended: nothing is answered until somebody logs in, perhaps in another tab.
let isLoggedOut = false;
let quietUntil = 0;
let freshAt = performance.now();
// Since when the server does not answer; null: it does.
/** @type {Date | null} */
let awaySince = null;
let tries = 0;
let tryAt = 0;
let askedAt = 0;
let asking = new AbortController();
/** @type {Channel | null} */
let channel = null;

export function startLive() {
  const main = document.getElementById("main");
  if (!main || !document.getElementById("live") || main.querySelector("[data-confirm-form], [data-still]")) return;
  document.addEventListener("keydown", (event) => {
    const target = /** @type {Element} */ (event.target);
    if (event.key === "." && !target.closest("input, select, textarea")) {
      isStopped = !isStopped;
      tell();
    }
  });
  document.addEventListener("visibilitychange", () => void look());
  document.addEventListener("pw-ended", () => void lookAnew(true));
  setInterval(turn, TURN_MS);
  setInterval(() => isLooking || awaySince || (isHeard && !isBehind) || void look(), ASK_MS);
  if (navigator.locks) {
    const { tenant = "", root = "" } = document.body.dataset;
    const runs = main.dataset.run ? [main.dataset.run] : [];
    const topics = () => ({ views: [location.pathname.slice(root.length) + location.search], runs });
    const made = (channel = new Channel(tenant, topics(), hear, (state) => {
      // A stream that ends may have been refused: that is seen at once, and so is one that begins again.
      if (state !== isHeard) void look();
      isHeard = state;
      if (state && !isBehind) freshAt = performance.now();
      tell();
    }));
    document.addEventListener("pw-moved", () => {
      made.topics = topics();
      made.tell();
    });
  }
  tell();
}

/** @param {import("./channel.js").News} news */
function hear(news) {
  if (!isBehind) freshAt = performance.now();
  const root = document.body.dataset.root ?? "";
  const tag = news.views?.[location.pathname.slice(root.length) + location.search];
  if (tag && `"${tag}"` !== etag) void look(tag);
  for (const [run, seq] of Object.entries(news.runs ?? {})) {
    document.dispatchEvent(new CustomEvent("pw-run", { detail: { run, seq } }));
  }
}

/** Look at the page again, also where nothing has changed since; what is as old as what is shown may be refused. */
export async function lookAnew(isNewer = false) {
  if (isNewer) document.body.dataset.readAt = (Number(document.body.dataset.readAt ?? 0) + 0.001).toFixed(6);
  etag = "";
  await look();
}

/**
 * Look at the page again, and show what has changed.
 * @param {string} tag that was announced
 */
export async function look(tag = "") {
  isBehind = true;
  if (isStopped || document.visibilityState === "hidden" || performance.now() < quietUntil) return;
  if (isLooking) {
    again = tag;
    return;
  }
  isLooking = true;
  askedAt = performance.now();
  asking = new AbortController();
  const asked = location.href;
  try {
    const found = await fetchFragment(asked, etag, tag, asking.signal);
    freshAt = performance.now();
    isLoggedOut = false;
    answered();
    // What belongs to an address that was left is not shown.
    isBehind = location.href !== asked;
    if (!isBehind && found && found.status === 200) {
      etag = found.etag;
      show(found);
    }
  } catch (error) {
    // The page says how old it is. A server that has too much to do says when to ask again; not all at once.
    const { after = 0, status = 0 } = /** @type {{after?: number, status?: number}} */ (error);
    if (AWAY.includes(status)) missed();
    else answered();
    if (status) isLoggedOut = status === 401;
    if (after) quietUntil = performance.now() + after * 1000 * (1 + Math.random());
  } finally {
    isLooking = false;
    tell();
  }
  if (again === null && location.href === asked) return;
  const next = again ?? "";
  again = null;
  if (!next || `"${next}"` !== etag) await look(next);
}

function answered() {
  if (awaySince) channel?.retry();
  awaySince = null;
  tries = 0;
}

/** The server has not answered: it is asked again soon, but by not all pages at once. */
function missed() {
  awaySince ??= new Date();
  const pause = TRIES_S[Math.min(tries++, TRIES_S.length - 1)] ?? 0;
  tryAt = performance.now() + pause * 1000 * (0.75 + Math.random() / 2);
}

function turn() {
  const now = performance.now();
  const took = isLooking ? now - askedAt : 0;
  if (!isHeard && took > SLOW_MS) awaySince ??= new Date();
  if (took > (isHeard ? LONGEST_MS : HANGS_MS)) asking.abort();
  if (awaySince && !isLooking && now >= tryAt) void look();
  tell();
}

function tell() {
  const place = document.getElementById("live");
  if (!place) return;
  const silent = performance.now() - freshAt;
  const isStale = isBehind && silent > STALE_MS;
  const state = isLoggedOut ? "out" : isStopped ? "paused" : awaySince ? "away" : isStale ? "stale" : "live";
  const stale = `no news for ${Math.round(silent / 1000)} s`;
  const text = { out: "logged out", paused: "paused", away: "not connected", stale, live: "live" }[state];
  const word = place.querySelector(".word");
  if (place.dataset.state !== state) place.dataset.state = state;
  if (word && word.textContent !== text) word.textContent = text;
  offerLogin(isLoggedOut);
  const left = isLooking ? 0 : Math.ceil((tryAt - performance.now()) / 1000);
  tellAway(state === "away" ? awaySince : null, left, () => void look());
}
