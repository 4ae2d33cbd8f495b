// Short sentences about what was done: shown for some seconds, and spoken.

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
