// Moves through the rows of a list by keys, and selects rows. A row is an element with data-row; it opens its first
// link, or that with data-opens, then by a click anywhere in the row, too; its checkbox, if it has one, selects it.

/** @type {Element | null} */
let lastChosen = null;

export function startTable() {
  document.addEventListener("keydown", (event) => {
    const target = /** @type {Element} */ (event.target);
    const isTyping = target.closest("input:not([type=checkbox]), select, textarea, dialog, [role=application]");
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping) return;
    if (event.key === "j" || event.key === "k") move(event.key === "j" ? 1 : -1);
    else if (event.key.toLowerCase() === "x") choose(event.shiftKey);
    else if (ARROWS[event.key] && target.closest("[data-grid]")) walk(target, ARROWS[event.key]);
    else return;
    event.preventDefault();
  });
  document.addEventListener("click", open);
  document.addEventListener("formdata", leaveOut);
  document.addEventListener("change", count);
  document.addEventListener("change", apply);
  document.addEventListener("input", applyName);
  document.addEventListener("pw-patched", count);
  count();
}

/** Key -> columns and rows to go. @type {Record<string, [number, number]>} */
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/** Move to the next cell of a grid that leads anywhere. @param {Element} from @param {[number, number]} step */
function walk(from, [dx, dy]) {
  const cell = from.closest("td, th");
  const lines = [...(from.closest("[data-grid]")?.querySelectorAll("tr") ?? [])];
  let y = lines.findIndex((each) => each.contains(cell)) + dy;
  let x = [...(cell?.parentElement?.children ?? [])].indexOf(/** @type {Element} */ (cell)) + dx;
  for (; lines[y]?.children[x]; x += dx, y += dy) {
    const link = lines[y].children[x].querySelector("a");
    if (link) return link.focus();
  }
}

const rows = () => [...document.querySelectorAll("[data-row]")];

/** @param {number} step */
function move(step) {
  const all = rows();
  const at = all.findIndex((each) => each.contains(document.activeElement));
  const next = all[Math.min(all.length - 1, Math.max(0, at < 0 ? 0 : at + step))];
  for (const each of all) each.classList.toggle("at", each === next);
  if (next) opener(next)?.focus();
}

/** The link that a row opens. @param {Element} row @returns {HTMLAnchorElement | null} */
const opener = (row) => row.querySelector("a[data-opens]") ?? row.querySelector("a");

/** Open the row that was clicked, unless that was on something else or text is selected. @param {MouseEvent} event */
function open(event) {
  const target = /** @type {Element} */ (event.target), link = target.closest?.("[data-row]")?.querySelector("a[data-opens]");
  const isElse = target.closest?.("a, button, input, label, select, summary, td.pick") || String(getSelection());
  if (!(link instanceof HTMLAnchorElement) || isElse || event.button) return;
  event.ctrlKey || event.metaKey || event.shiftKey ? window.open(link.href) : link.click();
}

/** Apply a filter that was chosen. @param {Event} event */
function apply({ target }) {
  const form = target instanceof HTMLSelectElement ? target.form : null;
  if (form?.matches("form.filters[method=get]") && form.checkValidity()) form.requestSubmit();
}

/** Apply a name that was chosen from those that are offered: what is typed comes letter by letter. @param {Event} event */
function applyName(event) {
  const { target } = event, kind = /** @type {InputEvent} */ (event).inputType;
  if (!(target instanceof HTMLInputElement) || !target.list || (kind && kind !== "insertReplacementText")) return;
  if ([...target.list.children].some((each) => each.getAttribute("value") === target.value)) target.form?.requestSubmit();
}

/** Leave filters out of the address that nobody filled in. @param {FormDataEvent} event */
function leaveOut({ target, formData }) {
  if (!(target instanceof HTMLFormElement) || !target.matches("form.filters[method=get]")) return;
  const filled = [...formData].filter(([, value]) => value !== "");
  for (const name of [...formData.keys()]) formData.delete(name);
  for (const [name, value] of filled) formData.append(name, value);
}

/** @param {boolean} isRange */
function choose(isRange) {
  const all = rows();
  const at = all.find((each) => each.contains(document.activeElement));
  if (!at) return;
  const from = isRange && lastChosen ? all.indexOf(lastChosen) : all.indexOf(at);
  const to = all.indexOf(at);
  for (const row of all.slice(Math.min(from, to), Math.max(from, to) + 1)) {
    const box = row.querySelector("input[type=checkbox]");
    if (box instanceof HTMLInputElement) box.checked = isRange || !box.checked;
  }
  lastChosen = at;
  count();
}

/** Tell how many are chosen, where the page has a place for it. */
function count() {
  const place = document.querySelector("[data-chosen]");
  if (!(place instanceof HTMLElement)) return;
  const chosen = document.querySelectorAll("[data-row] input[type=checkbox]:checked").length;
  place.textContent = chosen ? `${chosen} selected` : "";
  for (const each of document.querySelectorAll("[data-needs-chosen]")) {
    each.toggleAttribute("hidden", chosen === 0);
  }
}
