// Keys. Screens add their own: an element with data-hotkey="c" is clicked, or focused when it is a field.
import { copy } from "./copy.js";
import { hasKeys } from "./prefs.js";

const COMMON = [
  ["g, then a letter", "open a screen"],
  ["/", "go to the filter"],
  ["j, k", "next, previous row"],
  ["Enter", "open the row"],
  ["x, Shift x", "select the row, select a range"],
  ["1 to 7", "tabs of the page"],
  [".", "stop and go on with live changes"],
  ["y, Y", "copy the link, copy the id"],
  ["Ctrl K", "search"],
  ["Esc", "close"],
];

let afterG = false;

export function startKeys() {
  document.addEventListener("keydown", (event) => {
    const target = /** @type {Element} */ (event.target);
    const isTyping = target.closest("input:not([type=checkbox]), select, textarea, [contenteditable], [role=application]");
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping || !hasKeys()) return;
    if (document.querySelector("dialog[open]")) return;
    if (press(event.key)) event.preventDefault();
  });
  document.addEventListener("click", (event) => {
    if (event.target instanceof Element && event.target.closest("[data-keys-show]")) showAll();
  });
}

/**
 * @param {string} key
 * @returns {boolean} whether it means something here
 */
function press(key) {
  if (afterG) {
    afterG = false;
    return click(`nav [data-key="${CSS.escape(key)}"]`);
  }
  if (key === "g") return (afterG = true);
  if (key === "?") return showAll();
  if (key === "y") return void copy(location.href) ?? true;
  if (key === "Y") return void copy(document.querySelector("[data-id]")?.getAttribute("data-id") ?? "") ?? true;
  if (key === "/") return click("[data-hotkey='/'], main .filters input, main .filters select");
  if (/^[1-9]$/.test(key)) return click(`[data-tab="${key}"]`);
  return click(`main [data-hotkey="${CSS.escape(key)}"]`);
}

/** @param {string} selector */
function click(selector) {
  const found = document.querySelector(selector);
  if (!(found instanceof HTMLElement)) return false;
  if (found.matches("input:not([type=checkbox]), select, textarea")) found.focus();
  else found.click();
  return true;
}

function showAll() {
  const dialog = document.createElement("dialog");
  const main = document.createElement("main");
  const title = Object.assign(document.createElement("h1"), { textContent: "Keys" });
  const list = Object.assign(document.createElement("dl"), { className: "facts" });
  const own = [...document.querySelectorAll("main [data-hotkey]")].map((each) => [
    each.getAttribute("data-hotkey") ?? "",
    each.getAttribute("aria-label") ?? each.textContent?.trim() ?? "",
  ]);
  const screens = [...document.querySelectorAll("nav [data-key]")].map((each) => [
    `g ${each.getAttribute("data-key")}`,
    each.textContent ?? "",
  ]);
  for (const [key, words] of [...COMMON, ...own, ...screens]) {
    const term = document.createElement("dt");
    const kbd = Object.assign(document.createElement("kbd"), { textContent: key ?? "" });
    term.append(kbd);
    const text = Object.assign(document.createElement("dd"), { textContent: words ?? "" });
    list.append(term, text);
  }
  main.append(title, list);
  dialog.append(main);
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  document.body.append(dialog);
  dialog.showModal();
  return true;
}
