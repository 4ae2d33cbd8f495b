// What a reader prefers: the theme (a cookie, so that the server draws the page right at once) and the keys.
import { say } from "./toast.js";

const YEAR_S = 31_536_000;

export function startPrefs() {
  document.addEventListener("click", (event) => {
    if (!(event.target instanceof HTMLElement)) return;
    const theme = event.target.dataset.themeTo;
    if (theme !== undefined) setTheme(theme);
    if (event.target.matches("[data-keys-toggle]")) setKeys(!hasKeys());
  });
  showKeys();
}

/** @param {string} theme */
function setTheme(theme) {
  document.cookie = `pipeweave-theme=${theme}; path=/ui; max-age=${theme ? YEAR_S : 0}; samesite=lax`;
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  document.dispatchEvent(new CustomEvent("pw-theme"));
}

/** Whether keys without Ctrl do something. */
export function hasKeys() {
  return localStorage.getItem("pipeweave-keys") !== "off";
}

/** @param {boolean} isOn */
function setKeys(isOn) {
  localStorage.setItem("pipeweave-keys", isOn ? "on" : "off");
  showKeys();
  say(isOn ? "Single-letter keys are on." : "Single-letter keys are off.");
}

function showKeys() {
  for (const each of document.querySelectorAll("[data-keys-toggle]")) {
    each.setAttribute("aria-pressed", String(hasKeys()));
  }
}
