// Reads the timeline of a run, and lays its steps out as rows: one for each step, or for many that are alike.

/** @typedef {{kind: string, fromMs: number, toMs: number, attempt: number, errorCode: string | null}} Bar */
/** @typedef {{fromMs: number, toMs: number, running: number[], failed: number[]}} Lane */
/**
 * @typedef {{stepId: string, taskRunId: string, taskId: string, kind: string, status: string, level: number,
 *   mapCount: number | null, isCritical: boolean, bars: Bar[], lane: Lane | null}} Step
 */
/** @typedef {{isOpen: boolean, totalMs: number, steps: Step[]}} Run */
/** @typedef {{key: string, label: string, steps: Step[], lane: Lane | null, isFolded: boolean}} Row */

const PAGE = 1000;
// So many steps of one task on one level become one row.
export const FOLD = 6;
const FOLDED_BINS = 160;

/**
 * The whole timeline of a run, read page by page.
 * @param {string} run its id
 * @param {(path: string) => Promise<any>} ask
 * @returns {Promise<Run>}
 */
export async function load(run, ask) {
  /** @type {Step[]} */
  const steps = [];
  let cursor = "";
  for (;;) {
    const page = await ask(`/api/runs/${run}/timeline?limit=${PAGE}${cursor && `&cursor=${cursor}`}`);
    steps.push(...page.steps);
    cursor = page.nextCursor ?? "";
    if (!cursor) return { isOpen: page.isOpen, totalMs: page.totalMs, steps };
  }
}

/** When a step began to wait or to work; steps that did neither come last. @param {Step} step */
const begin = (step) => step.bars[0]?.fromMs ?? Infinity;

/**
 * The rows of some steps.
 * @param {Step[]} steps in the order of the pipeline
 * @param {string} order `level` or `start`
 * @param {Set<string>} open keys of rows that are unfolded
 * @returns {Row[]}
 */
export function layOut(steps, order, open) {
  const places = new Map(steps.map((each, index) => [each, index]));
  const place = (/** @type {Step} */ each) => places.get(each) ?? 0;
  const keyOf = (/** @type {Step} */ each) => `${each.level} ${each.kind} ${each.taskId}`;
  const sorted = [...steps].sort((a, b) =>
    order === "start" ? begin(a) - begin(b) || place(a) - place(b) : a.level - b.level || place(a) - place(b),
  );
  /** @type {Map<string, Step[]>} */
  const alike = new Map();
  for (const each of sorted) {
    const group = alike.get(keyOf(each));
    if (group) group.push(each);
    else alike.set(keyOf(each), [each]);
  }
  /** @type {Row[]} */
  const rows = [];
  const told = new Set();
  for (const each of sorted) {
    const key = keyOf(each);
    const group = alike.get(key) ?? [];
    const canFold = group.length >= FOLD;
    if (canFold && !told.has(key)) {
      const label = `${open.has(key) ? "▾" : "▸"} ${each.taskId} × ${group.length.toLocaleString("en")}`;
      rows.push({ key, label, steps: group, lane: folded(group), isFolded: true });
      told.add(key);
    }
    if (!canFold || open.has(key)) {
      rows.push({ key: each.stepId, label: each.stepId, steps: [each], lane: each.lane, isFolded: false });
    }
  }
  return rows;
}

/** How many of these steps ran at a time. @param {Step[]} steps @returns {Lane | null} */
function folded(steps) {
  const bars = steps.flatMap((each) => each.bars.filter((bar) => bar.kind === "work" || bar.kind === "failedWork"));
  if (!bars.length) return null;
  const fromMs = bars.reduce((least, bar) => Math.min(least, bar.fromMs), Infinity);
  const toMs = Math.max(bars.reduce((most, bar) => Math.max(most, bar.toMs), 0), fromMs + 0.001);
  const width = (toMs - fromMs) / FOLDED_BINS;
  const running = new Array(FOLDED_BINS).fill(0);
  const failed = new Array(FOLDED_BINS).fill(0);
  const bin = (/** @type {number} */ ms) => Math.min(FOLDED_BINS - 1, Math.floor((ms - fromMs) / width));
  for (const bar of bars) {
    const last = bin(bar.toMs);
    for (let at = bin(bar.fromMs); at <= last; at++) {
      const left = Math.max(bar.fromMs, fromMs + at * width);
      const right = Math.min(bar.toMs, fromMs + (at + 1) * width);
      running[at] += Math.max(0, right - left) / width;
    }
    if (bar.kind === "failedWork") failed[last] += 1;
  }
  return { fromMs, toMs, running, failed };
}

/**
 * The times in which no step did or waited for anything but predecessors, the longest first.
 * @param {Run} run
 * @returns {[number, number][]}
 */
export function idleTimes(run) {
  const busy = run.steps.flatMap((each) => each.bars).sort((a, b) => a.fromMs - b.fromMs);
  /** @type {[number, number][]} */
  const found = [];
  let at = 0;
  for (const bar of [...busy, { fromMs: run.totalMs, toMs: run.totalMs }]) {
    if (bar.fromMs > at) found.push([at, bar.fromMs]);
    at = Math.max(at, bar.toMs);
  }
  return found.sort((a, b) => b[1] - b[0] - (a[1] - a[0])).slice(0, 40);
}
