// Opens the page of a verb in a dialog. What will be sent is shown by the server, anew after each change.
import { fetchFragment, patch } from "./patch.js";

export function startConfirm() {
  document.addEventListener("click", (event) => {
    const target = event.target instanceof Element ? event.target.closest("a[data-confirm]") : null;
    if (!(target instanceof HTMLAnchorElement) || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    void open(target);
  });
  // A form that stands in a page is followed like one in a dialog.
  const form = document.querySelector("#main [data-confirm-form]");
  const main = form?.closest("main");
  if (main && form instanceof HTMLFormElement) form.addEventListener("input", () => preview(main, form.action));
}

/** @param {HTMLAnchorElement} link */
async function open(link) {
  const dialog = document.createElement("dialog");
  try {
    const found = await fetchFragment(link.href);
    if (!found) return;
    found.main.removeAttribute("id");
    dialog.append(found.main);
  } catch {
    location.assign(link.href);
    return;
  }
  dialog.setAttribute("aria-labelledby", "question");
  dialog.addEventListener("close", () => {
    dialog.remove();
    link.focus();
  });
  dialog.addEventListener("click", (event) => {
    const closes = event.target instanceof Element && event.target.closest("[data-close]");
    if (closes || event.target === dialog) {
      event.preventDefault();
      dialog.close();
    }
  });
  dialog.addEventListener("input", () => preview(dialog, link.href));
  document.body.append(dialog);
  dialog.showModal();
}

/** @type {number | undefined} */
let timer;

/** @param {HTMLElement} dialog @param {string} href */
function preview(dialog, href) {
  clearTimeout(timer);
  timer = setTimeout(async () => {
    const form = dialog.querySelector("form[data-confirm-form]");
    if (!(form instanceof HTMLFormElement)) return;
    const url = new URL(href);
    for (const [name, value] of new FormData(form)) url.searchParams.set(name, String(value));
    const found = await fetchFragment(url.href).catch(() => null);
    for (const part of [".sent", ".effects", ".plan"]) {
      const [old, fresh] = [dialog.querySelector(part), found?.main.querySelector(part)];
      if (old && fresh) patch(old, fresh);
    }
  }, 200);
}
