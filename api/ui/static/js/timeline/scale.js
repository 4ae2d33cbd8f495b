// Turns times into places and back. Times in which nothing happened can be drawn short.

// A long idle time is drawn as wide as this share of the rest.
const SHORT = 0.02;
const STEPS_MS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 1.5e4, 3e4, 6e4, 1.2e5, 3e5, 6e5, 9e5, 1.8e6, 3.6e6, 7.2e6, 2.16e7, 4.32e7, 8.64e7];

export class Scale {
  /**
   * @param {number} totalMs
   * @param {[number, number][]} idle times to draw short
   */
  constructor(totalMs, idle = []) {
    this.totalMs = Math.max(totalMs, 0.001);
    const gaps = idle.filter(([from, to]) => to - from > SHORT * 2 * this.totalMs).sort((a, b) => a[0] - b[0]);
    const kept = this.totalMs - gaps.reduce((sum, [from, to]) => sum + to - from, 0);
    /** Pairs of time and place on the short axis, both growing. @type {[number, number][]} */
    this.corners = [[0, 0]];
    let end = 0;
    let place = 0;
    for (const [from, to] of gaps) {
      place += from - end;
      this.corners.push([from, place]);
      place += Math.max(kept * SHORT, 0.001);
      this.corners.push([to, place]);
      end = to;
    }
    this.corners.push([this.totalMs, place + Math.max(this.totalMs - end, 0)]);
    this.gaps = gaps;
    this.from = 0;
    this.to = this.totalMs;
    this.left = 0;
    this.width = 1;
  }

  /** Show these times. @param {number} from @param {number} to */
  show(from, to) {
    const least = Math.max(this.totalMs / 1e5, 0.001);
    const low = Math.min(Math.max(0, Math.min(from, to)), this.totalMs - least);
    const high = Math.max(Math.min(this.totalMs, Math.max(from, to)), low + least);
    [this.from, this.to] = [Math.max(0, low), high];
  }

  /** The place of a time (pixels). @param {number} ms */
  x(ms) {
    const [first, last] = [this.#short(this.from), this.#short(this.to)];
    return this.left + ((this.#short(ms) - first) / Math.max(last - first, 1e-9)) * this.width;
  }

  /** The time at a place. @param {number} x */
  ms(x) {
    const [first, last] = [this.#short(this.from), this.#short(this.to)];
    return this.#map(first + ((x - this.left) / this.width) * (last - first), 1, 0);
  }

  /** Round times for an axis. @returns {number[]} */
  ticks() {
    const wanted = (this.to - this.from) / Math.max(2, this.width / 130);
    const step = STEPS_MS.find((each) => each >= wanted) ?? 8.64e7 * Math.ceil(wanted / 8.64e7);
    const found = [];
    for (let at = Math.ceil(this.from / step) * step; at <= this.to; at += step) found.push(at);
    return found.filter((each, index) => !index || this.x(each) - this.x(found[index - 1] ?? 0) > 48);
  }

  /** @param {number} ms */
  #short(ms) {
    return this.#map(ms, 0, 1);
  }

  /** @param {number} value @param {0 | 1} given @param {0 | 1} wanted */
  #map(value, given, wanted) {
    const at = Math.max(1, this.corners.findIndex((each) => each[given] >= value));
    const [a, b] = [this.corners[at - 1] ?? [0, 0], this.corners[at] ?? [0, 0]];
    const share = (value - a[given]) / Math.max(b[given] - a[given], 1e-9);
    return a[wanted] + Math.min(1, Math.max(0, share)) * (b[wanted] - a[wanted]);
  }
}
