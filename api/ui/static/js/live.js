// Keeps the page fresh: looks again when the server says that something has changed, or every few seconds
// where no event tells. A hidden page does nothing.
import { fetchFragment, show } from "./patch.js";

const RETRY_MS = 2000;
const STALE_MS = 12_000;

let etag = "";
let isStopped = false;
let isLooking = false;
let freshAt = performance.now();

export function startLive() {
  const main = document.getElementById("main");
  if (!main || !document.getElementById("live") || main.querySelector("[data-confirm-form]")) return;
  document.addEventListener("keydown", (event) => {
    const target = /** @type {Element} */ (event.target);
    if (event.key === "." && !target.closest("input, select, textarea")) {
      isStopped = !isStopped;
      tell();
    }
  });
  document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && look());
  setInterval(tell, 1000);
  void poll();
  tell();
}

/** Look at the page again, and show what has changed. */
export async function look() {
  if (isLooking || isStopped || document.visibilityState === "hidden") return;
  isLooking = true;
  try {
    const found = await fetchFragment(location.href, etag);
    freshAt = performance.now();
    if (found && found.status === 200) {
      etag = found.etag;
      show(found.main);
    }
  } finally {
    isLooking = false;
    tell();
  }
}

async function poll() {
  for (;;) {
    const every = Number(document.getElementById("main")?.dataset.every || 0) * 1000 || RETRY_MS;
    await new Promise((done) => setTimeout(done, every));
    await look().catch(() => undefined);
  }
}

function tell() {
  const place = document.getElementById("live");
  if (!place) return;
  const silent = performance.now() - freshAt;
  const state = isStopped ? "paused" : silent > STALE_MS ? "stale" : "live";
  const text = isStopped ? "paused" : silent > STALE_MS ? `no news for ${Math.round(silent / 1000)} s` : "live";
  const word = place.querySelector(".word");
  if (place.dataset.state !== state) place.dataset.state = state;
  if (word && word.textContent !== text) word.textContent = text;
}
