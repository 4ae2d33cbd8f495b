// Draws links: curves while they are few, thin straight lines when they are thousands.

/** Beyond so many links in view, each is a straight line at 12 % of the ink. */
const CURVES = 3_000, FAINT = 0.12;
/** Paths of a few hundred lines are drawn faster than one of many thousands. */
const AT_ONCE = 200;

/**
 * @param {CanvasRenderingContext2D} pen in world units @param {import("./boxes.js").Look} look
 * @param {number[]} links @param {number} zoom
 */
export function drawLinks(pen, look, links, zoom) {
  const { scene, colours } = look, isCurved = links.length <= CURVES;
  pen.save();
  pen.strokeStyle = colours.muted;
  pen.globalAlpha = isCurved ? 0.6 : FAINT;
  pen.lineWidth = isCurved ? Math.max(0.9, 0.7 / zoom) : 1 / zoom;
  for (let first = 0; first < links.length; first += AT_ONCE) {
    pen.beginPath();
    for (const at of links.slice(first, first + AT_ONCE)) {
      if (isCurved) curve(pen, scene.links[at], scene.isDown);
      else straight(pen, scene.links[at], zoom);
    }
    pen.stroke();
  }
  pen.restore();
  if (isCurved && zoom >= 0.45) for (const at of links) drawEnd(pen, look, at);
}

/** One link with all its bends. @param {CanvasRenderingContext2D} pen @param {Float32Array} line @param {boolean} isDown */
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

/** @param {CanvasRenderingContext2D} pen @param {Float32Array} line @param {number} zoom */
function straight(pen, line, zoom) {
  pen.moveTo(line[0], line[1]);
  // Bends that nobody can see are not drawn.
  const step = zoom < 0.1 ? line.length - 2 : 2;
  for (let at = step; at < line.length; at += step) pen.lineTo(line[at], line[at + 1]);
}

/** The head of a link, and its label. @param {CanvasRenderingContext2D} pen @param {import("./boxes.js").Look} look @param {number} at */
function drawEnd(pen, { scene, colours }, at) {
  const { targets, labels } = scene.graph.links, line = scene.links[at];
  const [left, top, x, y] = line.slice(-4);
  pen.fillStyle = colours.muted;
  if (targets[at] < scene.boxes) pen.fill(new Path2D(`M${x} ${y}${scene.isDown ? "l-3.5 -7h7z" : "l-7 -3.5v7z"}`));
  if (!labels[at]) return;
  const [middle, low] = [(left + x) / 2, (top + y) / 2];
  pen.fillStyle = colours.canvas;
  pen.fillRect(middle - 14, low - 8, 28, 16);
  pen.fillStyle = colours.muted;
  pen.font = "11px system-ui, sans-serif";
  pen.textAlign = "center";
  pen.fillText(labels[at], middle, low + 4);
}
