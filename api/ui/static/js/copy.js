// Buttons that copy a text, and say that they did.
import { say } from "./toast.js";

export function startCopy() {
  document.addEventListener("click", (event) => {
    const button = event.target instanceof Element ? event.target.closest("[data-copy]") : null;
    if (button instanceof HTMLElement) void copy(button.dataset.copy ?? "");
  });
}

/** @param {string} text */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Without HTTPS there is no clipboard: select a copy instead.
    const area = Object.assign(document.createElement("textarea"), { value: text });
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  say("Copied.");
}
