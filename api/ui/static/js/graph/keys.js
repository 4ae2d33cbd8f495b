// Everything that a drag does, by keys; what is found; and what is said of a place.
import { figures } from "./boxes.js";
import { isFailure, WORDS } from "./looks.js";

/** @typedef {import("./element.js").PwGraph} Graph */
const PAN = 80;

/** @type {Record<string, (graph: Graph, isShift?: boolean) => unknown>} */
export const ACTS = {
  ArrowLeft: (graph, isShift) => (isShift ? graph.camera.pan(PAN, 0) : walk(graph, -1, 0)),
  ArrowRight: (graph, isShift) => (isShift ? graph.camera.pan(-PAN, 0) : walk(graph, 1, 0)),
  ArrowUp: (graph, isShift) => (isShift ? graph.camera.pan(0, PAN) : walk(graph, 0, -1)),
  ArrowDown: (graph, isShift) => (isShift ? graph.camera.pan(0, -PAN) : walk(graph, 0, 1)),
  "+": (graph) => graph.camera.zoomAt(1.25),
  "=": (graph) => graph.camera.zoomAt(1.25),
  "-": (graph) => graph.camera.zoomAt(0.8),
  e: (graph) => graph.fit(),
  v: (graph) => graph.go({ view: graph.scene?.graph.view === "all" ? "pattern" : "all", open: [] }),
  o: (graph) => graph.go({ open: graph.scene?.graph.open, direction: graph.scene?.isDown ? "right" : "down" }),
  f: (graph) => nextFailure(graph, 1),
  F: (graph) => nextFailure(graph, -1),
  p: (graph) => showPath(graph),
  "/": (graph) => /** @type {HTMLElement | null} */ (graph.querySelector(".graph-find"))?.focus(),
  Enter: (graph) => graph.toggle(graph.marked.box),
  Escape: (graph) => graph.select(""),
};

/** @param {Graph} graph @param {KeyboardEvent} event */
export function pressed(graph, event) {
  const act = ACTS[event.key];
  if (!act || !graph.scene || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  event.stopPropagation();
  act(graph, event.shiftKey);
}

/** Name, status and numbers of a box, and how many are before and after it. @param {import("./boxes.js").Look} look @param {number} box @param {number} ordinal */
export function speak(look, box, ordinal) {
  const { scene, states } = look, steps = scene.steps(box);
  const letter = ordinal ? states.letter(ordinal) : states.lead(steps);
  const name = ordinal ? scene.id(ordinal) : scene.title(box) + (steps.length > 1 ? `, ${steps.length} steps` : "");
  const said = [name, letter && WORDS[letter], figures(look, box).replace("/", "of").replace("↻", "attempt ").replace("Δ", "other code,")];
  const [before, after] = [scene.before, scene.after].map((side) => scene.beside(box, side).length);
  return `${said.filter(Boolean).join(", ")}; ${before} before, ${after} after`;
}

/** Go along an edge, or across to the next box beside. @param {Graph} graph @param {number} right @param {number} down */
function walk(graph, right, down) {
  const { scene, marked } = graph;
  if (!scene) return;
  const { x, y, w, h, isDown } = scene, from = marked.box, [along, across] = isDown ? [down, right] : [right, down];
  const middle = (/** @type {number} */ box) => (isDown ? x[box] + w[box] / 2 : y[box] + h[box] / 2);
  const line = () => (isDown ? scene.boxesIn(-Infinity, y[from] + 1, Infinity, y[from] + h[from] - 1)
    : scene.boxesIn(x[from] + 1, -Infinity, x[from] + w[from] - 1, Infinity))
    .filter((box) => (middle(box) - middle(from)) * across > 0);
  const near = from < 0 ? [0] : along ? scene.beside(from, along > 0 ? scene.after : scene.before) : line();
  const far = (/** @type {number} */ box) => (from < 0 ? 0 : Math.abs(middle(box) - middle(from)));
  const [next] = near.filter((box) => scene.steps(box).length).sort((a, b) => far(a) - far(b) || a - b);
  if (next !== undefined) graph.select(scene.id(scene.steps(next)[0]));
}

/** Select the next step that failed. @param {Graph} graph @param {number} by */
function nextFailure(graph, by) {
  const { states, scene, marked } = graph;
  const failed = [...states.letters.keys()].filter((each) => isFailure(states.letter(each)));
  const next = by > 0 ? failed.find((each) => each > marked.ordinal) ?? failed[0]
    : failed.findLast((each) => each < marked.ordinal) ?? failed.at(-1);
  if (next) graph.select(scene?.id(next) ?? "");
}

/** Select the next step whose name, task or status has the text; gives how many have it. @param {Graph} graph @param {string} text */
export function find(graph, text) {
  const { scene, states, marked } = graph, wanted = text.trim().toLowerCase();
  if (!scene || !wanted) return 0;
  const { ids, tasks } = scene.graph.steps;
  const found = [...ids.keys()].map((at) => at + 1).filter((each) => {
    const letter = states.letter(each), task = scene.graph.tasks[tasks[each - 1]];
    return `${ids[each - 1]} ${task} ${letter ? WORDS[letter] : ""}`.toLowerCase().includes(wanted);
  });
  if (found.length) graph.select(scene.id(found.find((each) => each > marked.ordinal) ?? found[0]));
  return found.length;
}

/** Light the steps that decided when the run ended; again: no more. @param {Graph} graph */
function showPath(graph) {
  const { scene, states, marked } = graph;
  if (!scene) return;
  const end = (/** @type {number} */ box) => Math.max(0, ...scene.steps(box).map((each) => states.finished[each] || 0));
  const last = (/** @type {number[]} */ boxes) => boxes.reduce((one, each) => (end(each) > end(one) ? each : one), boxes[0]);
  /** @type {Set<number>} */
  const path = new Set();
  let box = last([...Array(scene.boxes).keys()]);
  while (box !== undefined && end(box) > 0) {
    for (const each of [box, ...scene.before[box].filter((joint) => joint >= scene.boxes)]) path.add(each);
    box = last(scene.beside(box, scene.before));
  }
  graph.marked = { ...marked, path: marked.path || !path.size ? null : path };
  graph.draw();
}
