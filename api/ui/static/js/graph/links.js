// Draws links: curves while they are few, thin straight lines when they are thousands.
import { SANS } from "./looks.js";

/** Beyond so many links in view, each is a straight line at 12 % of the ink. */
const CURVES = 3_000, FAINT = 0.12;
/** Paths of a few hundred lines are drawn faster than one of many thousands. */
const AT_ONCE = 200;

/** @param {CanvasRenderingContext2D} pen in world units @param {import("./boxes.js").Look} look @param {number[]} links @param {number} zoom */
export function drawLinks(pen, look, links, zoom) {
  const { scene, colours } = look, isCurved = links.length <= CURVES;
  pen.save();
  pen.strokeStyle = colours.muted;
  pen.globalAlpha = isCurved ? 0.6 : FAINT;
  pen.lineWidth = isCurved ? Math.max(0.9, 0.7 / zoom) : 1 / zoom;
  const [pale, plain] = isCurved ? apart(look, links) : [[], links];
  for (const path of isCurved ? paths(scene, plain, curve) : straightPaths(scene, plain, zoom)) pen.stroke(path);
  pen.setLineDash([4, 3]);
  pen.globalAlpha = 0.35;
  for (const path of paths(scene, pale, curve)) pen.stroke(path);
  pen.restore();
  if (isCurved && zoom >= 0.45) drawEnds(pen, look, links);
}

/** Links of what was skipped, a branch that was not taken, and all others. @param {import("./boxes.js").Look} look @param {number[]} links */
function apart({ scene, states }, links) {
  const { sources, targets } = scene.graph.links;
  const isSkipped = (/** @type {number} */ box) => box < scene.boxes && states.lead(scene.steps(box)) === "s";
  const pale = links.filter((at) => isSkipped(sources[at]) || isSkipped(targets[at])), gone = new Set(pale);
  return [pale, pale.length ? links.filter((at) => !gone.has(at)) : links];
}

/** Some links as paths. @param {import("./scene.js").Scene} scene @param {number[]} links @param {(path: Path2D, line: Float32Array, isDown: boolean) => void} add */
function paths(scene, links, add) {
  const found = [];
  for (let first = 0; first < links.length; first += AT_ONCE) {
    const path = new Path2D(), end = Math.min(links.length, first + AT_ONCE);
    for (let at = first; at < end; at++) add(path, scene.links[links[at]], scene.isDown);
    found.push(path);
  }
  return found;
}

/** Straight links. Those of a whole graph are kept: states change, where links are does not. @param {import("./scene.js").Scene} scene @param {number[]} links @param {number} zoom */
function straightPaths(scene, links, zoom) {
  // Bends that nobody can see are not drawn.
  const add = zoom < 0.1 ? direct : bent;
  if (links.length < scene.links.length) return paths(scene, links, add);
  const kept = scene.paths.get(add) ?? paths(scene, links, add);
  scene.paths.set(add, kept);
  return kept;
}

/** One link with all its bends. @param {CanvasPath} pen @param {Float32Array} line @param {boolean} isDown */
export function curve(pen, line, isDown) {
  let [x, y] = line;
  pen.moveTo(x, y);
  for (let at = 2; at < line.length; at += 2) {
    const right = line[at], low = line[at + 1], middle = Math.max(16, Math.abs(isDown ? low - y : right - x) / 2);
    if (isDown ? right === x : low === y) pen.lineTo(right, low);
    else if (isDown) pen.bezierCurveTo(x, y + middle, right, low - middle, right, low);
    else pen.bezierCurveTo(x + middle, y, right - middle, low, right, low);
    [x, y] = [right, low];
  }
}

/** @param {Path2D} path @param {Float32Array} line */
function direct(path, line) {
  path.moveTo(line[0], line[1]);
  path.lineTo(line[line.length - 2], line[line.length - 1]);
}

/** @param {Path2D} path @param {Float32Array} line */
function bent(path, line) {
  path.moveTo(line[0], line[1]);
  for (let at = 2; at < line.length; at += 2) path.lineTo(line[at], line[at + 1]);
}

/** The heads of links, and their labels. @param {CanvasRenderingContext2D} pen @param {import("./boxes.js").Look} look @param {number[]} links */
function drawEnds(pen, { scene, colours }, links) {
  const { targets, labels } = scene.graph.links;
  pen.fillStyle = colours.muted;
  pen.beginPath();
  for (const at of links) if (targets[at] < scene.boxes) head(pen, scene.links[at], scene.isDown);
  pen.fill();
  pen.font = `11px ${SANS}`;
  pen.textAlign = "center";
  for (const at of links) {
    if (!labels[at]) continue;
    const [left, top, x, y] = scene.links[at].slice(-4), middle = (left + x) / 2, low = (top + y) / 2, wide = pen.measureText(labels[at]).width + 10;
    pen.fillStyle = colours.canvas;
    pen.fillRect(middle - wide / 2, low - 8, wide, 16);
    pen.fillStyle = colours.muted;
    pen.fillText(labels[at], middle, low + 4);
  }
}

/** @param {CanvasRenderingContext2D} pen @param {Float32Array} line @param {boolean} isDown */
function head(pen, line, isDown) {
  const x = line[line.length - 2], y = line[line.length - 1], [back, side] = [7, 3.5];
  pen.moveTo(x, y);
  pen.lineTo(isDown ? x - side : x - back, isDown ? y - back : y - side);
  pen.lineTo(isDown ? x + side : x - back, isDown ? y - back : y + side);
  pen.closePath();
}
