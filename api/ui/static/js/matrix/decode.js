// Reads the two short texts of a matrix (docs/api.md): a status and a level of duration for each item.

export const STATUS = {
  p: "pending", r: "ready", q: "queued", R: "running", w: "waiting", c: "completed", f: "failed", t: "timeout",
  x: "cancelled", s: "skipped",
};
export const LEVELS = 91;

/** The letter of each item, from run lengths such as `c997f2c`. @param {string} text @param {number} total */
export function statuses(text, total) {
  const found = new Uint8Array(total);
  let at = 0;
  for (const [, letter = "p", times] of text.matchAll(/([A-Za-z])(\d*)/g)) {
    const end = Math.min(total, at + Number(times || 1));
    found.fill(letter.charCodeAt(0), at, end);
    at = end;
  }
  return found;
}

/** The level of each item, 0 the quickest; 255 for one that has not ended. @param {string} text */
export function levels(text) {
  const found = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    found[at] = code === 32 ? 255 : code > 92 ? code - 36 : code - 35;
  }
  return found;
}
