// Draws boxes, with as much as can be read at the zoom: cards, names, shapes, dots.
import { drawMark, ICONS, isFailure, OVER, SANS, shortDuration, WORST_FIRST } from "./looks.js";
import { shadeOf } from "./shades.js";

/** The least zoom of a card, of a name, of a shape; below that, dots. */
export const CARD = 0.6, NAME = 0.45, SHAPE = 0.18;
const BOLD = `550 13px ${SANS}`, SMALL = `11px ${SANS}`;
// In world units larger than on a card, so that it can still be read.
const LARGE = `550 16px ${SANS}`, MIDDLE = `14px ${SANS}`;
/** The zoom below which a card is written in those. */
const PLAIN = 0.9;
const MOST_CUT = 20_000;
const IN_BAR = [...OVER, ...WORST_FIRST.filter((each) => !OVER.includes(each))];

/**
 * @typedef {{scene: import("./scene.js").Scene, states: import("./states.js").States,
 *   colours: import("./looks.js").Colours, shades: import("./shades.js").Shades | null}} Look
 * @typedef {CanvasRenderingContext2D} Pen in world units
 */

/** @param {Pen} pen @param {Look} look @param {number[]} boxes @param {number} zoom */
export function drawBoxes(pen, look, boxes, zoom) {
  if (zoom < SHAPE) drawDots(pen, look, boxes);
  else for (const box of boxes) (look.scene.blocks.has(box) ? drawBlock : drawBox)(pen, look, box, zoom);
}

/** What runs apart from the steps, and when. @param {Pen} pen @param {Look} look @param {number} zoom */
export function drawFrames(pen, { scene, colours }, zoom) {
  pen.setLineDash([3, 3]);
  pen.lineWidth = 1;
  pen.textAlign = "left";
  for (const { title, x, y, width, height } of scene.graph.frames) {
    frame(pen, x, y, width, height, colours.canvas, colours.muted);
    const font = pen.font = zoom >= PLAIN ? `12px ${SANS}` : `15px ${SANS}`;
    pen.fillStyle = colours.muted;
    if (zoom >= NAME) pen.fillText(fitted(pen, font, title, width - 24), x + 12, y + 19);
  }
  pen.setLineDash([]);
}

/** The colour of a whole box. @param {Look} look @param {number} box */
export function fillOf(look, box) {
  return look.shades ? shadeOf(look, box) : look.colours[look.states.lead(look.scene.steps(box)) ?? "muted"];
}

/** On whole pixels and one colour after the other: several times faster. @param {Pen} pen @param {Look} look @param {number[]} boxes */
function drawDots(pen, look, boxes) {
  /** @type {Map<string, number[]>} */
  const byColour = new Map();
  for (const box of boxes) {
    const colour = fillOf(look, box), same = byColour.get(colour);
    if (same) same.push(box);
    else byColour.set(colour, [box]);
  }
  const { x, y, w, h } = look.scene, { a, e, f } = pen.getTransform();
  pen.save();
  pen.setTransform(1, 0, 0, 1, 0, 0);
  for (const [colour, same] of byColour) {
    pen.fillStyle = colour;
    for (const box of same) {
      pen.fillRect(Math.round(x[box] * a + e), Math.round(y[box] * a + f),
        Math.max(2, Math.round(w[box] * a)), Math.max(2, Math.round(h[box] * a)));
    }
  }
  pen.restore();
}

/** @param {Pen} pen @param {Look} look @param {number} box @param {number} zoom */
function drawBox(pen, look, box, zoom) {
  const { scene, states, colours } = look, x = scene.x[box], y = scene.y[box], w = scene.w[box], h = scene.h[box];
  const letter = states.lead(scene.steps(box)), edge = letter && letter !== "p" ? colours[letter === "P" ? "f" : letter] : colours.muted;
  const ground = look.shades ? shadeOf(look, box) : colours.panel;
  // A skipped step has a dashed frame, a failed one a strong frame.
  pen.setLineDash(letter === "s" ? [4, 3] : []);
  pen.lineWidth = isFailure(letter) ? 2 : 1.2;
  const isChoice = scene.engine(box) === "choice";
  if (scene.isClass(box)) frame(pen, x + 5, y + 4, w, h, colours.panel, colours.muted, isChoice);
  frame(pen, x, y, w, h, zoom < NAME ? fillOf(look, box) : ground, edge, isChoice);
  if (scene.graph.boxes.inside[box] && zoom >= NAME) frame(pen, x + 3, y + 3, w - 6, h - 6, ground, edge);
  pen.setLineDash([]);
  if (zoom < NAME) return;
  const isCard = zoom >= CARD && !isChoice, indent = (letter ? 28 : 10) + (isChoice ? 24 : 0);
  if (letter) drawMark(pen, letter, x + indent - 12, y + (isCard ? 15 : h / 2), 12, colours);
  pen.textAlign = "left";
  pen.fillStyle = letter === "s" ? colours.muted : colours.ink;
  const font = pen.font = zoom >= PLAIN ? BOLD : LARGE;
  const times = scene.times(box), room = w - indent - (isChoice ? 24 : 10) - (times ? pen.measureText(times).width : 0);
  pen.fillText(fitted(pen, font, scene.title(box), room) + times, x + indent, y + (isCard ? 19 : h / 2 + 6));
  if (isCard) drawCard(pen, look, box, zoom >= PLAIN ? SMALL : MIDDLE);
}

/** The second line of a card, and the bar at its foot. @param {Pen} pen @param {Look} look @param {number} box @param {string} font */
function drawCard(pen, look, box, font) {
  const { scene, states, colours } = look, x = scene.x[box], w = scene.w[box], low = scene.y[box] + scene.h[box];
  const right = figures(look, box);
  pen.font = font;
  pen.fillStyle = look.shades ? colours.ink : colours.muted;
  const word = scene.graph.boxes.inside[box] ?? scene.task(box), left = scene.maps.has(box) ? `map of ${word}` : word;
  const icon = ICONS[scene.engine(box)], indent = icon ? 16 : 0;
  pen.fillText(fitted(pen, font, left, w - 26 - indent - pen.measureText(right).width), x + 10 + indent, low - 9);
  if (icon) drawIcon(pen, icon, x + 10, low - 18, colours.muted);
  pen.textAlign = "right";
  if (right.includes("failed")) pen.fillStyle = colours.f;
  pen.fillText(right, x + w - 10, low - 9);
  const progress = states.progress(scene.steps(box));
  let at = x + 10;
  for (const letter of progress ? IN_BAR : []) {
    const wide = ((w - 20) * (progress?.by[letter] ?? 0)) / Math.max(1, progress?.total ?? 1);
    if (!wide) continue;
    pen.fillStyle = colours[letter];
    pen.fillRect(at, low - 5, Math.max(1, wide), 3);
    at += wide;
  }
}

/** @param {Pen} pen @param {Path2D} icon @param {number} x @param {number} y @param {string} colour */
function drawIcon(pen, icon, x, y, colour) {
  pen.save();
  pen.translate(x, y);
  pen.strokeStyle = colour;
  pen.lineWidth = 1.4;
  pen.stroke(icon);
  pen.restore();
}

/** What a card says on the right: how much is over, or attempts and duration. @param {Look} look @param {number} box */
export function figures({ scene, states }, box) {
  const steps = scene.steps(box), progress = states.progress(steps);
  const delta = steps.some((each) => scene.changed.has(scene.id(each))) ? "Δ" : "";
  if (progress) {
    const failed = steps.length === 1 ? states.failedItems(steps[0]) : 0;
    const ended = `${progress.done.toLocaleString("en")} / ${progress.total.toLocaleString("en")}`;
    return [delta, ended, failed ? `· ${failed.toLocaleString("en")} failed` : ""].filter(Boolean).join(" ");
  }
  if (steps.length !== 1) return delta;
  if (states.notes[steps[0]] || states.until[steps[0]] > 0) return states.notes[steps[0]] || `${shortDuration(Math.max(0, states.until[steps[0]] - Date.now()))} left`;
  const took = states.finished[steps[0]] - states.started[steps[0]], attempt = states.attempts[steps[0]];
  return [delta, attempt > 1 ? `↻${attempt}` : "", Number.isNaN(took) ? "" : shortDuration(took)].filter(Boolean).join(" ");
}

/** The members of an open class and where they are, worst status first. @param {Look} look @param {number} box */
export function membersOf({ scene, states }, box) {
  const block = scene.blocks.get(box);
  if (!block) return [];
  const rank = (/** @type {number} */ each) => WORST_FIRST.indexOf(states.letter(each) ?? "p");
  const shown = [...scene.steps(box)].sort((a, b) => rank(a) - rank(b) || a - b).slice(0, block.shown);
  const left = scene.x[box] + 10, top = scene.y[box] + 28;
  return shown.map((ordinal, at) => (
    { ordinal, x: left + Math.floor(at / block.rows) * 138, y: top + (at % block.rows) * 28, w: 132, h: 22 }));
}

/** An open class with its members. @param {Pen} pen @param {Look} look @param {number} box @param {number} zoom */
function drawBlock(pen, look, box, zoom) {
  const { scene, states, colours } = look, x = scene.x[box], y = scene.y[box], h = scene.h[box];
  const members = membersOf(look, box), rest = scene.steps(box).length - members.length;
  pen.textAlign = "left";
  pen.lineWidth = 1.2;
  frame(pen, x, y, scene.w[box], h, colours.canvas, colours.muted);
  for (const { ordinal, ...at } of members) {
    const letter = states.letter(ordinal), isNamed = zoom >= NAME;
    frame(pen, at.x, at.y, at.w, at.h, isNamed ? colours.panel : colours[letter ?? "p"],
      letter && letter !== "p" ? colours[letter] : colours.line);
    if (!isNamed) continue;
    if (letter) drawMark(pen, letter, at.x + 11, at.y + 11, 9, colours);
    pen.font = SMALL;
    pen.fillStyle = colours.ink;
    pen.fillText(fitted(pen, SMALL, scene.id(ordinal), 106), at.x + (letter ? 21 : 8), at.y + 15);
  }
  if (zoom < NAME) return;
  pen.fillStyle = colours.ink;
  pen.font = BOLD;
  pen.fillText(scene.title(box) + scene.times(box), x + 10, y + 19);
  if (rest) pen.fillText(`and ${rest.toLocaleString("en")} more`, x + 10, y + h - 10);
}

/** @param {Pen} pen @param {number} x @param {number} y @param {number} w @param {number} h @param {string} ground @param {string} edge @param {boolean} isRhombus */
function frame(pen, x, y, w, h, ground, edge, isRhombus = false) {
  pen.beginPath();
  if (!isRhombus) pen.roundRect(x, y, w, h, 6);
  else for (const [right, low] of [[0, 0.5], [0.5, 0], [1, 0.5], [0.5, 1], [0, 0.5]]) pen.lineTo(x + w * right, y + h * low);
  pen.fillStyle = ground;
  pen.fill();
  pen.strokeStyle = edge;
  pen.stroke();
}

/** Texts that were cut, by font, width and text: to measure one takes longer than to draw it. @type {Map<string, string>} */
const cut = new Map();

/** A text in this font, which the pen has, cut so that it is not wider. @param {Pen} pen @param {string} font @param {string} text @param {number} width */
function fitted(pen, font, text, width) {
  const key = `${font} ${width} ${text}`, known = cut.get(key);
  if (known !== undefined) return known;
  if (cut.size >= MOST_CUT) cut.clear();
  const found = cutTo(pen, text, width);
  cut.set(key, found);
  return found;
}

/** @param {Pen} pen @param {string} text @param {number} width */
function cutTo(pen, text, width) {
  if (pen.measureText(text).width <= width) return text;
  let low = 0, high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (pen.measureText(`${text.slice(0, middle)}…`).width <= width) low = middle;
    else high = middle - 1;
  }
  return low ? `${text.slice(0, low)}…` : "";
}
