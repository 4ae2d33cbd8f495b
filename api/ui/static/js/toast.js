// Short sentences about what was done: shown for some seconds, and spoken. And the line above a page that is not kept up
// to date: its session has ended, or the server does not answer.

export function startToast() {
  const told = document.querySelector("[data-toast]");
  if (told) {
    setTimeout(() => told.remove(), 6000);
    const url = new URL(location.href);
    url.searchParams.delete("done");
    history.replaceState(history.state, "", url);
  }
}

/** @param {string} text */
export function say(text) {
  const toast = document.createElement("p");
  toast.className = "toast";
  toast.textContent = text;
  document.querySelectorAll(".toast").forEach((each) => each.remove());
  document.body.append(toast);
  speak(text);
  setTimeout(() => toast.remove(), 4000);
}

let spokenAt = -Infinity;

/**
 * Tell screen readers, at most once in five seconds.
 * @param {string} text
 */
export function speak(text) {
  const place = document.getElementById("spoken");
  if (!place || performance.now() - spokenAt < 5000) return;
  spokenAt = performance.now();
  place.textContent = text;
}

/**
 * Say that the session has ended and where to begin another one.
 * @param {boolean} isSo
 */
export function offerLogin(isSo) {
  if (Boolean(document.getElementById("logged-out")) === isSo) return;
  document.getElementById("logged-out")?.remove();
  if (!isSo) return;
  const href = `/ui/login?${new URLSearchParams({ next: location.pathname + location.search })}`;
  const link = Object.assign(document.createElement("a"), { href, textContent: "Log in" });
  line("logged-out", "You were logged out. What you see is not kept up to date any more.").append(" ", link);
}

/**
 * Say since when the server does not answer, and when it is asked again.
 * @param {Date | null} since null: it answers
 * @param {number} left seconds until it is asked again
 * @param {() => void} ask now
 */
export function tellAway(since, left, ask) {
  let shown = document.getElementById("away");
  if (!since) return shown?.remove();
  if (!shown) {
    const button = Object.assign(document.createElement("button"), { type: "button", className: "button", textContent: "Try now" });
    button.addEventListener("click", ask);
    const wait = Object.assign(document.createElement("span"), { className: "wait" });
    const at = since.toLocaleTimeString([], { hour12: false });
    shown = line("away", `Not connected since ${at}. What you see is as of then.`);
    shown.append(" ", wait, " ", button);
  }
  const wait = shown.querySelector(".wait");
  const text = left > 0 ? `Trying again in ${left} s.` : "Trying now…";
  if (wait && wait.textContent !== text) wait.textContent = text;
}

/** Only the sentence is spoken, and not what counts down beside it. @param {string} id @param {string} text */
function line(id, text) {
  const banner = Object.assign(document.createElement("p"), { id, className: "banner" });
  const sentence = Object.assign(document.createElement("span"), { textContent: text });
  sentence.setAttribute("role", "alert");
  banner.append(sentence);
  document.getElementById("main")?.before(banner);
  return banner;
}
