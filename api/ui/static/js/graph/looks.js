// Statuses and how they look: a letter, a word, a colour and a shape each. Colours are the page's own.

export const WORDS = /** @type {const} */ ({
  p: "pending", r: "ready", q: "queued", R: "running", w: "waiting",
  c: "completed", f: "failed", t: "timeout", x: "cancelled", s: "skipped",
  // Of a map that completed without some of its items: no task run has it.
  P: "partial",
});
/** @typedef {keyof typeof WORDS} Letter */
/** @typedef {Record<string, string>} Colours */

/** The page's font: a canvas takes no variables of CSS. */
export const SANS = getComputedStyle(document.documentElement).getPropertyValue("--sans");

/** What one looks for first, comes first. */
export const WORST_FIRST = /** @type {Letter[]} */ ([..."ftPRwqrpxsc"]);
export const OVER = /** @type {Letter[]} */ ([..."cPftxs"]);
export const isFailure = (/** @type {Letter | undefined} */ letter) => letter === "f" || letter === "t" || letter === "P";

/** The page's colours as they are now, by letter or name. @param {HTMLElement} element @returns {Colours} */
export function coloursOf(element) {
  const probe = document.createElement("span");
  element.append(probe);
  const names = { ...WORDS, panel: "panel", ink: "ink", muted: "muted", line: "line", canvas: "canvas" };
  const found = Object.entries(names).map(([name, property]) => {
    probe.style.color = `var(--${property})`;
    return [name, getComputedStyle(probe).color];
  });
  probe.remove();
  return Object.fromEntries(found);
}

/** The marks, in a square from -8 to 8: what is filled, what is drawn in lines, what is cut out. */
const MARKS = {
  p: ["", "M7 0A7 7 0 1 1 -7 0A7 7 0 1 1 7 0", ""],
  r: ["", "M7 0A7 7 0 1 1 -7 0A7 7 0 1 1 7 0M0 -7V0H7", ""],
  q: ["M0 0V-7A7 7 0 0 1 7 0Z", "M7 0A7 7 0 1 1 -7 0A7 7 0 1 1 7 0", ""],
  R: ["M-5 -8L8 0L-5 8Z", "", ""],
  w: ["", "M-5 -7H5M-5 7H5M-4 -7C-4 -2 4 2 4 7M4 -7C4 -2 -4 2 -4 7", ""],
  c: ["M8 0A8 8 0 1 1 -8 0A8 8 0 1 1 8 0", "", "M-4 0L-1 3L4 -3"],
  f: ["", "M-6 -6L6 6M6 -6L-6 6", ""],
  t: ["M8 0A8 8 0 1 1 -8 0A8 8 0 1 1 8 0", "", "M0 -5V0H4"],
  x: ["", "M7 0A7 7 0 1 1 -7 0A7 7 0 1 1 7 0M-5 5L5 -5", ""],
  P: ["M0 -7A7 7 0 0 0 0 7Z", "M7 0A7 7 0 1 1 -7 0A7 7 0 1 1 7 0", ""],
  s: ["", "M-7 0H-3M3 0H7M0 -7V-3M0 3V7", ""],
};
/** The small marks of what the engine decides, in a square of 10; as in orchestrator/graph/shapes.py. @type {Record<string, Path2D>} */
export const ICONS = Object.fromEntries(Object.entries({
  transform: "M1 2H5M1 5H9M1 8H5M7 3L9 5L7 7", gather: "M1 1L5 5V9M9 1L5 5", signal: "M1 9V6M5 9V4M9 9V1", pipeline: "M1 1H9V9H1ZM3 4H7M3 6H7",
  sleep: "M6 1A4.5 4.5 0 1 0 9 7A4.5 4.5 0 0 1 6 1", approval: "M7 3A2 2 0 1 1 3 3A2 2 0 1 1 7 3M1 9A4 3 0 0 1 9 9", loop: "M8 2A4 4 0 1 0 9 6M9 1V4H6", steps: "M1 1H9V9H1ZM3 3H7V7H3Z",
}).map(([word, path]) => [word, new Path2D(path)]));
const PATHS = Object.fromEntries(
  Object.entries(MARKS).map(([letter, paths]) => [letter, paths.map((each) => new Path2D(each))]));

/** Draw the mark of a status around a point. @param {CanvasRenderingContext2D} pen @param {Letter} letter @param {number} x @param {number} y @param {number} size @param {Colours} colours */
export function drawMark(pen, letter, x, y, size, colours) {
  const [filled, lines, cut] = PATHS[letter];
  pen.save();
  pen.translate(x, y);
  pen.scale(size / 16, size / 16);
  pen.fillStyle = pen.strokeStyle = colours[letter];
  pen.lineWidth = letter === "f" ? 4 : 2.4;
  pen.fill(filled);
  pen.stroke(lines);
  pen.strokeStyle = colours.panel;
  pen.stroke(cut);
  pen.restore();
}

/** A duration for a card: `412 ms`, `4.1 s`, `3 min`, `2.5 h`, `3.1 d`. @param {number} ms */
export function shortDuration(ms) {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`;
  if (ms < 3_600_000) return `${Math.round(ms / 60_000)} min`;
  return ms < 172_800_000 ? `${(ms / 3_600_000).toFixed(1)} h` : `${(ms / 86_400_000).toFixed(1)} d`;
}
