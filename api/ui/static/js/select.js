// What is selected on a run's screen: one step, named in the address. Graph, timeline and matrix announce it by
// `pw-select`, tables by links with data-select; whoever shows it hears `pw-selected`.
import { fetchFragment, show } from "./patch.js";

export function startSelect() {
  document.addEventListener("pw-select", (event) => {
    const detail = /** @type {CustomEvent} */ (event).detail ?? {};
    if (document.querySelector("[data-selects]")) go(address(detail.step ?? null, detail.item ?? null));
  });
  document.addEventListener("click", (event) => {
    const link = event.target instanceof Element ? event.target.closest("a[data-select], a[data-close-step]") : null;
    const isPlain = !(event.ctrlKey || event.metaKey || event.shiftKey || event.altKey);
    if (!(link instanceof HTMLAnchorElement) || !isPlain || !document.querySelector("[data-selects]")) return;
    event.preventDefault();
    go(link.href);
  });
  document.addEventListener("change", (event) => {
    const range = event.target;
    if (!(range instanceof HTMLInputElement) || !range.dataset.goesTo) return;
    const seq = range.dataset.goesTo.split(",")[Number(range.value) - 1];
    if (seq) go((range.dataset.href ?? "").replace("SEQ", seq));
  });
  window.addEventListener("popstate", () => void read());
}

/** @param {string | null} step @param {number | null} item */
function address(step, item) {
  const url = new URL(location.href);
  for (const [name, value] of [["step", step], ["item", item], ["attempt", null], ["line", null]]) {
    if (value === null) url.searchParams.delete(String(name));
    else url.searchParams.set(String(name), String(value));
  }
  return url.href;
}

/** @param {string} href */
function go(href) {
  history.pushState(null, "", href);
  document.dispatchEvent(new CustomEvent("pw-moved"));
  void read();
  const detail = { step: new URL(location.href).searchParams.get("step") };
  document.dispatchEvent(new CustomEvent("pw-selected", { detail }));
}

/** Show what the address says, also while live changes are stopped. */
async function read() {
  const asked = location.href;
  const found = await fetchFragment(asked).catch(() => null);
  // Who has moved on meanwhile is answered by a later one.
  if (location.href !== asked) return;
  if (found?.status === 200) show(found);
  else location.reload();
}
