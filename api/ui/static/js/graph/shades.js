// Colour by something else than the status: shades of ink, since colour is only ever status.

/** @typedef {{least: number, most: number, value: (ordinal: number) => number}} Shades */

/** What is shown by shades, and from which value to which. @param {string} by @param {import("./states.js").States} states */
export function shadesOf(by, states) {
  const { queued, started, finished } = states;
  /** @type {Record<string, (ordinal: number) => number>} */
  const values = {
    duration: (each) => Math.log10(Math.max(1, finished[each] - started[each])),
    wait: (each) => (started[each] - queued[each]) / Math.max(1, finished[each] - queued[each]),
    attempts: (each) => states.attempts[each] || NaN,
    code: (each) => states.codes[each] || NaN,
  };
  const value = values[by] ?? values.duration;
  const found = [...states.letters.keys()].slice(1).map(value).filter((each) => !Number.isNaN(each));
  const [least, most] = [Math.min, Math.max].map((pick) => found.reduce((one, each) => pick(one, each), found[0]));
  return { least, most, value };
}

/** The shade of a box: that of the darkest of its steps. @param {import("./boxes.js").Look} look @param {number} box */
export function shadeOf({ scene, colours, shades }, box) {
  const found = shades ? scene.steps(box).map(shades.value).filter((each) => !Number.isNaN(each)) : [];
  if (!shades || !found.length) return colours.panel;
  const share = (Math.max(...found) - shades.least) / Math.max(1e-9, shades.most - shades.least);
  return `color-mix(in srgb, ${colours.ink} ${Math.round(8 + 47 * share)}%, ${colours.panel})`;
}
