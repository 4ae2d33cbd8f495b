// How far the steps of a run are, as arrays by ordinal, kept up to date by what has changed.
import { isFailure, OVER, WORST_FIRST } from "./looks.js";

/** @typedef {import("./looks.js").Letter} Letter */
/** @typedef {{total: number, statuses: Partial<Record<Letter, number>>}} Items */
/**
 * What the endpoint of a run's steps answers: columns that go with `ordinals`, in ms from the run's start.
 * @typedef {{status: string, isWhole: boolean, cursor: string, ordinals: number[], statuses: string,
 *   attempts: number[], queuedMs: (number | null)[], startedMs: (number | null)[],
 *   finishedMs: (number | null)[], codeVersions: number[], items: Record<string, Items>,
 *   waits?: Record<string, {until: string | null, text: string | null}>}} StepStates
 */

export class States {
  /** @param {number} count of steps */
  constructor(count) {
    /** @type {(Letter | undefined)[]} */
    this.letters = new Array(count + 1);
    this.attempts = new Uint16Array(count + 1);
    this.codes = new Uint32Array(count + 1);
    this.queued = new Float64Array(count + 1).fill(NaN);
    this.started = new Float64Array(count + 1).fill(NaN);
    this.finished = new Float64Array(count + 1).fill(NaN);
    /** When a wait ends (ms since 1970), and in which round a loop is. */
    this.until = new Float64Array(count + 1).fill(NaN);
    this.notes = /** @type {string[]} */ ([]);
    /** @type {Map<number, Items>} */
    this.items = new Map();
    this.runStatus = this.cursor = "";
    /** The graph of a pipeline has no states. */
    this.isKnown = false;
  }

  /** Take in what has changed; gives the ordinals. @param {StepStates} given */
  apply(given) {
    given.ordinals.forEach((ordinal, at) => {
      this.letters[ordinal] = /** @type {Letter} */ (given.statuses[at]);
      this.attempts[ordinal] = given.attempts[at];
      this.codes[ordinal] = given.codeVersions[at];
      this.queued[ordinal] = given.queuedMs[at] ?? NaN;
      this.started[ordinal] = given.startedMs[at] ?? NaN;
      this.finished[ordinal] = given.finishedMs[at] ?? NaN;
      this.until[ordinal] = Date.parse(given.waits?.[ordinal]?.until ?? "");
      this.notes[ordinal] = given.waits?.[ordinal]?.text ?? "";
    });
    for (const [ordinal, items] of Object.entries(given.items)) this.items.set(Number(ordinal), items);
    this.runStatus = given.status;
    this.cursor = given.cursor;
    this.isKnown = true;
    // The time that is left of a wait changes by itself.
    return new Set([...given.ordinals, ...Object.keys(given.items).map(Number), ...[...this.until.keys()].filter((each) => this.until[each] > 0)]);
  }

  /**
   * The status of a step as one sees it: an open map with failed items has failed, one that completed without them
   * is partial. @param {number} ordinal @returns {Letter | undefined}
   */
  letter(ordinal) {
    const own = this.letters[ordinal], items = this.items.get(ordinal)?.statuses;
    if (!items || isFailure(own) || !this.failedItems(ordinal)) return own;
    return own === "c" ? "P" : items.f ? "f" : "t";
  }

  /** How many items of a map failed. @param {number} ordinal */
  failedItems(ordinal) {
    const items = this.items.get(ordinal)?.statuses;
    return (items?.f ?? 0) + (items?.t ?? 0);
  }

  /** How many of these steps have which status. @param {number[]} steps */
  counts(steps) {
    /** @type {Partial<Record<Letter, number>>} */
    const found = {};
    for (const each of steps) {
      const letter = this.letter(each);
      if (letter) found[letter] = (found[letter] ?? 0) + 1;
    }
    return found;
  }

  /** The one status that a box shows: what one looks for first. @param {number[]} steps */
  lead(steps) {
    if (steps.length === 1) return this.letter(steps[0]);
    const found = this.counts(steps);
    return WORST_FIRST.find((letter) => found[letter]);
  }

  /** How much of a map or a class is over; null: of a single step. @param {number[]} steps */
  progress(steps) {
    const items = steps.length === 1 ? this.items.get(steps[0]) : undefined;
    if (!this.isKnown || (steps.length < 2 && !items)) return null;
    const by = items?.statuses ?? this.counts(steps);
    return { by, done: OVER.reduce((sum, each) => sum + (by[each] ?? 0), 0), total: items?.total ?? steps.length };
  }
}
