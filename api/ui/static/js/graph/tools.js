// The buttons above a graph, for all that the keys do; and its pictures.
import { Camera } from "./camera.js";
import { ACTS, find } from "./keys.js";
import { asked } from "./pointing.js";
import { Surface } from "./surface.js";

/** @typedef {import("./element.js").PwGraph} Graph */
/** Words of a button, its key, and what is said of it. @type {[string, string, string][]} */
const BUTTONS = [
  ["−", "-", "Zoom out"], ["+", "+", "Zoom in"], ["Fit", "e", "Show all"],
  ["Pattern", "v", "All steps, or their pattern"], ["Turn", "o", "From left to right, or from the top down"], ["Failure", "f", "Select the next step that failed"],
  ["Critical path", "p", "What decided when the run ended"],
];
const COLOURS = { "": "status", duration: "duration", wait: "share of waiting", attempts: "attempts", code: "code version" };
/** Pixels of a side of a picture that browsers still make. */
const LARGEST = 8_000;

/** @param {Graph} graph @param {boolean} isOfRun */
export function toolsOf(graph, isOfRun) {
  const bar = Object.assign(document.createElement("div"), { className: "graph-tools" });
  bar.setAttribute("role", "toolbar");
  bar.setAttribute("aria-label", "Graph");
  const shown = BUTTONS.filter(([, key]) => isOfRun || !"fp".includes(key));
  bar.append(...shown.map(([text, key, title]) => button(text, `${title} (${key})`, () => ACTS[key](graph))), sought(graph));
  if (isOfRun) bar.append(colours(graph));
  bar.append(button("PNG", "Save as a picture", () => savePng(graph)), button("SVG", "Save as a drawing", () => saveSvg(graph)));
  return bar;
}

/** @param {string} text @param {string} title @param {() => unknown} act */
function button(text, title, act) {
  const made = document.createElement("button");
  Object.assign(made, { type: "button", className: "small", textContent: text, title });
  made.setAttribute("aria-label", title);
  made.addEventListener("click", act);
  return made;
}

/** @param {Graph} graph */
function sought(graph) {
  const field = document.createElement("input");
  Object.assign(field, { type: "search", className: "graph-find", placeholder: "Find a step", ariaLabel: "Find a step by name, task or status" });
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter") field.setAttribute("aria-invalid", String(!find(graph, field.value)));
    else if (event.key === "Escape") graph.stage?.focus();
    event.stopPropagation();
  });
  return field;
}

/** @param {Graph} graph */
function colours(graph) {
  const list = Object.assign(document.createElement("select"), { ariaLabel: "Colour by" });
  for (const [value, text] of Object.entries(COLOURS)) list.add(new Option(`Colour: ${text}`, value, false, value === graph.colour));
  list.addEventListener("change", () => graph.paint(list.value));
  return list;
}

/** The whole graph, as large as browsers make it. @param {Graph} graph */
function savePng(graph) {
  if (!graph.scene) return;
  const { width, height } = graph.scene.graph, camera = new Camera(() => undefined);
  const zoom = Math.min(1, LARGEST / (window.devicePixelRatio || 1) / Math.max(width, height));
  // A surface is half as large again as what it shows.
  [camera.width, camera.height] = [(width * zoom) / 1.5, (height * zoom) / 1.5];
  Object.assign(camera, { zoom, x: width / 6, y: height / 6 });
  const picture = new Surface(document.createElement("canvas"), camera);
  picture.look = graph.look();
  picture.redraw();
  picture.canvas.toBlob((blob) => blob && save(blob, `${graph.scene?.graph.pipelineId}.png`));
}

/** The server draws it, with the same layout. @param {Graph} graph */
async function saveSvg(graph) {
  const url = new URL(graph.src, document.baseURI);
  url.searchParams.delete("layout");
  const answer = await asked(graph, url.pathname.replace(/\/graph$/, "/graph.svg") + url.search);
  if (answer) save(await answer.blob(), `${graph.scene?.graph.pipelineId}.svg`);
}

/** @param {Blob} blob @param {string} name */
function save(blob, name) {
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1_000);
}
