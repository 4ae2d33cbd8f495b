// Starts the parts that every page has. Pages work without any of them.
import { startConfirm } from "./confirm.js";
import { startCopy } from "./copy.js";
import { startHold } from "./hold.js";
import { startKeys } from "./keys.js";
import { startLive } from "./live.js";
import { startPrefs } from "./prefs.js";
import { startSelect } from "./select.js";
import { startTable } from "./table.js";
import { startTimes } from "./time.js";
import { startToast } from "./toast.js";

document.documentElement.classList.add("scripted");
startTimes();
startPrefs();
startToast();
startCopy();
startConfirm();
startTable();
startHold();
startKeys();

// The search loads when somebody asks for it.
const search = () => void import("./palette.js").then(({ open }) => open());
document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
    event.preventDefault();
    search();
  }
});
document.addEventListener("click", (event) => {
  if (event.target instanceof Element && event.target.closest("[data-palette]")) search();
});
startLive();
startSelect();

// Custom elements load their own code, and only on pages that have one.
const ELEMENTS = ["graph", "timeline", "matrix", "log", "json", "divide"];
const islands = () => {
  for (const name of ELEMENTS) {
    if (document.querySelector(`pw-${name}:not(:defined)`)) {
      void import(`./${name}/element.js`);
    }
  }
};
islands();
document.addEventListener("pw-patched", islands);
