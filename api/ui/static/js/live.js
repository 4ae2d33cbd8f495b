// Keeps the page fresh: looks again when the server announces that something has changed. Where no
// announcement comes, it asks every two seconds. A hidden page does nothing.
import { Channel } from "./channel.js";
import { fetchFragment, show } from "./patch.js";

const ASK_MS = 2000;
const STALE_MS = 12_000;
// The server says each 10 s that nothing is new. After two of these are missing, it cannot know: its database
// may be away while the stream is open.
const SILENT_MS = 25_000;

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
  setInterval(tell, 1000);
  setInterval(() => isLooking || (isHeard && !isBehind) || void look(), ASK_MS);
  if (navigator.locks) {
    const { tenant = "", root = "" } = document.body.dataset;
    const runs = main.dataset.run ? [main.dataset.run] : [];
    const topics = () => ({ views: [location.pathname.slice(root.length) + location.search], runs });
    const channel = new Channel(tenant, topics(), hear, (state) => {
      // A stream that ends may have been refused: that is seen at once.
      if (state !== isHeard) void look();
      isHeard = state;
      if (state && !isBehind) freshAt = performance.now();
      tell();
    });
    document.addEventListener("pw-moved", () => {
      channel.topics = topics();
      channel.tell();
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
  const asked = location.href;
  try {
    const found = await fetchFragment(asked, etag, tag);
    freshAt = performance.now();
    isLoggedOut = false;
    // What belongs to an address that was left is not shown.
    isBehind = location.href !== asked;
    if (!isBehind && found && found.status === 200) {
      etag = found.etag;
      show(found);
    }
  } catch (error) {
    // The page says how old it is. A server that has too much to do says when to ask again; not all at once.
    const { after = 0, status = 0 } = /** @type {{after?: number, status?: number}} */ (error);
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

function tell() {
  const place = document.getElementById("live");
  if (!place) return;
  const silent = performance.now() - freshAt;
  const isStale = silent > (isBehind || !isHeard ? STALE_MS : SILENT_MS);
  const state = isLoggedOut ? "out" : isStopped ? "paused" : isStale ? "stale" : "live";
  const stale = `no news for ${Math.round(silent / 1000)} s`;
  const text = { out: "logged out", paused: "paused", stale, live: "live" }[state];
  const word = place.querySelector(".word");
  if (place.dataset.state !== state) place.dataset.state = state;
  if (word && word.textContent !== text) word.textContent = text;
  offerLogin();
}

/** Say that the session has ended and where to begin another one, for as long as that is so. */
function offerLogin() {
  const shown = document.getElementById("logged-out");
  if (Boolean(shown) === isLoggedOut) return;
  shown?.remove();
  if (!isLoggedOut) return;
  const banner = Object.assign(document.createElement("p"), { id: "logged-out", className: "banner", role: "alert" });
  const href = `/ui/login?${new URLSearchParams({ next: location.pathname + location.search })}`;
  const link = Object.assign(document.createElement("a"), { href, textContent: "Log in" });
  banner.append("You were logged out. What you see is not kept up to date any more. ", link);
  document.getElementById("main")?.before(banner);
}
