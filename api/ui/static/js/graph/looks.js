// Statuses and how they look: a letter, a word, a colour and a shape each. Colours are the page's own.

export const WORDS = /** @type {const} */ ({
  p: "pending", r: "ready", q: "queued", R: "running", w: "waiting",
  c: "completed", f: "failed", t: "timeout", x: "cancelled", s: "skipped",
  // Of a map that completed without some of its items: no task run has it.
  P: "partial",
});
/** @typedef {keyof typeof WORDS} Letter */
/** @typedef {Record<string, string>} Colours */

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
  w: ["", "M0 -8L8 0L0 8L-8 0Z", ""],
  c: ["M8 0A8 8 0 1 1 -8 0A8 8 0 1 1 8 0", "", "M-4 0L-1 3L4 -3"],
  f: ["", "M-6 -6L6 6M6 -6L-6 6", ""],
  t: ["M8 0A8 8 0 1 1 -8 0A8 8 0 1 1 8 0", "", "M0 -5V0H4"],
  x: ["", "M7 0A7 7 0 1 1 -7 0A7 7 0 1 1 7 0M-5 5L5 -5", ""],
  P: ["M0 -7A7 7 0 0 0 0 7Z", "M7 0A7 7 0 1 1 -7 0A7 7 0 1 1 7 0", ""],
  s: ["", "M-7 0H-3M3 0H7M0 -7V-3M0 3V7", ""],
};
const PATHS = Object.fromEntries(
  Object.entries(MARKS).map(([letter, paths]) => [letter, paths.map((each) => new Path2D(each))]));

/**
 * Draw the mark of a status.
 * @param {CanvasRenderingContext2D} pen @param {Letter} letter @param {number} x the middle
 * @param {number} y the middle @param {number} size @param {Colours} colours
 */
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

/** A duration for a card: `412 ms`, `4.1 s`, `3 min`, `2.5 h`. @param {number} ms */
export function shortDuration(ms) {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`;
  return ms < 3_600_000 ? `${Math.round(ms / 60_000)} min` : `${(ms / 3_600_000).toFixed(1)} h`;
}
