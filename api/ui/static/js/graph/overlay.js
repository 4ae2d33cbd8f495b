// The canvas above: what is selected, what leads there and from there, what moves; and the map of the whole.
import { fillOf, membersOf } from "./boxes.js";
import { curve } from "./links.js";

/** Running boxes get a moving hatch while there are not more of them in view. */
const MOVING = 200;
const MAP_WIDTH = 160, MAP_HEIGHT = 110, LEAST_HEIGHT = 14;

/** @typedef {import("./boxes.js").Look} Look */
/** @typedef {import("./camera.js").Camera} Camera */
/** @typedef {{box: number, ordinal: number, hover: number, isWide: boolean, isTold: boolean, path: Set<number> | null}} Marked */

/** Draw all of it; gives whether anything moves. @param {CanvasRenderingContext2D} pen @param {Look} look @param {Camera} camera @param {Marked} marked @param {number} phase of the hatch */
export function drawOverlay(pen, look, camera, marked, phase) {
  const { scene, colours } = look, { zoom } = camera, scale = zoom * (window.devicePixelRatio || 1);
  pen.setTransform(1, 0, 0, 1, 0, 0);
  pen.clearRect(0, 0, pen.canvas.width, pen.canvas.height);
  pen.setTransform(scale, 0, 0, scale, -camera.x * scale, -camera.y * scale);
  const lit = litBy(scene, marked);
  if (lit) dim(pen, look, camera, lit, `${scene.id(marked.ordinal)}.`);
  const member = membersOf(look, marked.box).find((each) => each.ordinal === marked.ordinal);
  for (const box of [marked.hover, marked.box].filter((each) => each >= 0)) {
    const isChosen = box === marked.box, gap = 3 / zoom;
    const { x, y, w, h } = isChosen && member ? member
      : { x: scene.x[box], y: scene.y[box], w: scene.w[box], h: scene.h[box] };
    pen.strokeStyle = isChosen ? colours.ink : colours.muted;
    pen.lineWidth = (isChosen ? 2.5 : 1.5) / zoom;
    pen.strokeRect(x - gap, y - gap, w + 2 * gap, h + 2 * gap);
  }
  return drawHatch(pen, look, camera, phase);
}

/** The elements that belong to what is marked. @param {Look["scene"]} scene @param {Marked} marked */
function litBy(scene, { box, isWide, isTold, path }) {
  // What nobody has chosen is only outlined.
  if (path || box < 0 || isTold) return path;
  const sides = [scene.before, scene.after];
  if (isWide) return new Set(sides.flatMap((side) => [...scene.reach(box, side)]));
  return new Set([box, ...sides.flatMap((side) => [...side[box], ...scene.beside(box, side)])]);
}

/** Veil what is not lit, and draw the links of what is. @param {CanvasRenderingContext2D} pen @param {Look} look @param {Camera} camera @param {Set<number>} lit @param {string} place of the frames that are lit */
function dim(pen, { scene, colours }, camera, lit, place) {
  const { x, y, zoom } = camera, w = camera.width / zoom, h = camera.height / zoom;
  pen.beginPath();
  pen.rect(x, y, w, h);
  for (const each of lit) pen.rect(scene.x[each], scene.y[each], scene.w[each], scene.h[each]);
  for (const each of scene.graph.frames) if (each.place.startsWith(place)) pen.rect(each.x, each.y, each.width, each.height);
  pen.globalAlpha = 0.45;
  pen.fillStyle = colours.canvas;
  pen.fill("evenodd");
  pen.globalAlpha = 1;
  pen.strokeStyle = colours.ink;
  pen.lineWidth = Math.max(1.3, 1.3 / zoom);
  pen.beginPath();
  const { sources, targets } = scene.graph.links;
  for (const at of scene.linksIn(x, y, x + w, y + h)) {
    if (lit.has(sources[at]) && lit.has(targets[at])) curve(pen, scene.links[at], scene.isDown);
  }
  pen.stroke();
}

/** A hatch on what runs. @param {CanvasRenderingContext2D} pen @param {Look} look @param {Camera} camera @param {number} phase */
function drawHatch(pen, { scene, states, colours }, { x, y, width, height, zoom }, phase) {
  const running = scene.boxesIn(x, y, x + width / zoom, y + height / zoom)
    .filter((box) => !scene.blocks.has(box) && states.lead(scene.steps(box)) === "R");
  if (!running.length || running.length > MOVING || zoom < 0.1) return false;
  pen.save();
  pen.beginPath();
  for (const box of running) pen.rect(scene.x[box], scene.y[box], scene.w[box], scene.h[box]);
  pen.clip();
  pen.beginPath();
  for (const box of running) {
    const left = scene.x[box], low = scene.y[box] + scene.h[box], high = scene.h[box];
    for (let at = (phase % 14) - high; at < scene.w[box]; at += 14) {
      pen.moveTo(left + at, low);
      pen.lineTo(left + at + high, low - high);
    }
  }
  pen.strokeStyle = colours.R;
  pen.lineWidth = 3;
  pen.globalAlpha = 0.25;
  pen.stroke();
  pen.restore();
  return true;
}

/** The whole graph in dots; gives how many pixels a world unit is. @param {HTMLCanvasElement} canvas @param {Look} look */
export function drawMap(canvas, look) {
  const { scene, colours } = look, pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  const scale = Math.min(MAP_WIDTH / scene.graph.width, MAP_HEIGHT / scene.graph.height);
  // No higher than what it shows, so that it covers little of the graph.
  const high = Math.max(LEAST_HEIGHT, Math.ceil(scene.graph.height * scale));
  [canvas.width, canvas.height] = [MAP_WIDTH, high];
  for (const each of [canvas, canvas.nextElementSibling]) /** @type {HTMLElement} */ (each).style.height = `${high}px`;
  pen.fillStyle = colours.panel;
  pen.fillRect(0, 0, MAP_WIDTH, high);
  for (let box = 0; box < scene.boxes; box++) {
    pen.fillStyle = fillOf(look, box);
    pen.fillRect(scene.x[box] * scale, scene.y[box] * scale,
      Math.max(1, scene.w[box] * scale), Math.max(1, scene.h[box] * scale));
  }
  return scale;
}
