// Rows that are new wait behind a bar below the titles, so that nothing moves under the reader's eyes: `n` or the
// bar shows them. An empty list shows its first rows at once.
let isShown = false;

export function startHold() {
  document.addEventListener("pw-fresh", (event) => hold(/** @type {CustomEvent} */ (event).detail));
  document.addEventListener("click", (event) => {
    if (event.target instanceof Element && event.target.closest("[data-pill]")) release();
  });
  document.addEventListener("keydown", (event) => {
    const target = /** @type {Element} */ (event.target);
    const isTyping = target.closest("input:not([type=checkbox]), select, textarea, dialog") || event.ctrlKey || event.metaKey || event.altKey;
    if (event.key === "n" && !isTyping && document.querySelector("[data-pill]")) release();
    if (event.key === "=" && !isTyping) compare();
  });
  document.addEventListener("change", offer);
  document.addEventListener("click", (event) => {
    if (event.target instanceof Element && event.target.closest("[data-compare]")) compare();
  });
}

/** Take the rows out of a fresh page that stand before the first row that is shown. @param {HTMLElement} main */
function hold(main) {
  if (isShown) {
    isShown = false;
    return;
  }
  const [old, fresh] = [document.querySelector("#main [data-hold] tbody"), main.querySelector("[data-hold] tbody")];
  const first = old?.querySelector("tr[id]");
  if (!old || !fresh || !first) return;
  const at = [...fresh.children].findIndex((each) => old.querySelector(`#${CSS.escape(each.id)}`));
  const held = [...fresh.children].slice(0, at < 0 ? fresh.children.length : at);
  if (!held.length) return;
  for (const each of held) each.remove();
  if (at < 0) fresh.append(...[...old.children].map((each) => each.cloneNode(true)));
  const bar = Object.assign(document.createElement("tr"), { id: "pill", className: "fresh" });
  const cell = Object.assign(document.createElement("td"), { colSpan: 99 });
  const button = Object.assign(document.createElement("button"), { type: "button", textContent: `${held.length}${at < 0 ? " or more" : ""} new ↑` });
  button.dataset.pill = "";
  cell.append(button);
  bar.append(cell);
  main.querySelector("[data-hold] thead")?.append(bar);
}

async function release() {
  const { lookAnew } = await import("./live.js");
  isShown = true;
  await lookAnew();
  document.querySelector("#pill")?.remove();
  document.querySelector("#main [data-hold]")?.scrollIntoView({ block: "nearest" });
}

const chosen = () => [...document.querySelectorAll("[data-row] input[type=checkbox]:checked")].map((each) => each.closest("[data-row]")?.id ?? "");

function offer() {
  for (const each of document.querySelectorAll("[data-compare]")) each.toggleAttribute("hidden", chosen().length !== 2);
}

/** Put the two runs that are chosen beside each other. */
function compare() {
  const two = chosen();
  if (two.length === 2 && document.querySelector("[data-compare]")) {
    location.assign(`${document.body.dataset.root}/compare/${two[0]}/${two[1]}`);
  }
}
