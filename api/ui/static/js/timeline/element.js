// <pw-timeline data-run>: the timeline of a run on a canvas. What it holds from the server, a picture, is what
// readers without scripts see; the table of steps below it is the same in words.
import { duration } from "../time.js";
import { controls } from "./controls.js";
import { idleTimes, layOut, load } from "./data.js";
import { AXIS, ROW, draw } from "./draw.js";
import { Island } from "./island.js";
import { Scale } from "./scale.js";

const MOST_NAMES = 230;
const KEYS =
  "Timeline. Up and down go through the steps, left and right through what a step did. Plus and minus zoom, E shows all, " +
  "F finds the next failure, Enter unfolds or opens. The table below says the same.";

class Timeline extends Island {
  constructor() {
    super();
    /** @type {import("./data.js").Run} */
    this.run = { isOpen: false, totalMs: 0, steps: [] };
    /** @type {import("./data.js").Row[]} */
    this.rows = [];
    this.scale = new Scale(1);
    this.open = new Set();
    this.at = -1;
    this.bar = -1;
    this.kind = "";
    this.isShown = false;
    this.isShort = false;
    /** @type {[number, number] | null} */
    this.brush = null;
    this.inner = document.createElement("div");
  }

  connectedCallback() {
    if (this.isBegun) return;
    this.box.className = "tl-scroll";
    this.inner.append(this.canvas);
    this.box.append(this.inner);
    this.controls = controls(this);
    this.append(this.controls, this.box, this.told);
    this.box.addEventListener("scroll", () => this.paint(), { passive: true });
    document.addEventListener("pw-select", (event) => this.follow(event), { signal: this.aborts.signal });
    document.addEventListener("click", (event) => this.filter(event), { signal: this.aborts.signal });
    this.begin(KEYS);
  }

  /** @override @param {AbortSignal} signal */
  async read(signal) {
    this.run = await load(this.dataset.run ?? "", (path) => this.ask(path, signal));
    for (const each of this.querySelectorAll(":scope > .picture-scroll")) each.toggleAttribute("hidden", true);
    this.layOut();
  }

  /** Rows and scale, from the data and from what the address says. */
  layOut() {
    const wanted = new URLSearchParams(location.search);
    const { from, to, totalMs } = this.scale;
    const isAll = from <= 0 && to >= totalMs;
    const waits = (/** @type {import("./data.js").Step} */ step) => step.bars.some((bar) => bar.kind === this.kind);
    this.rows = layOut(this.run.steps, wanted.get("order") ?? "level", this.open);
    if (this.kind) this.rows = this.rows.filter((row) => row.steps.some(waits));
    // Idle times are short where they are most of the time, unless somebody wants the whole.
    const idle = idleTimes(this.run), idleMs = idle.reduce((sum, [from, to]) => sum + to - from, 0);
    this.isShort = (wanted.get("idle") ?? (idleMs > this.run.totalMs / 2 ? "short" : "")) === "short";
    this.scale = new Scale(this.run.totalMs, this.isShort ? idle : []);
    if (!this.isShown) this.scale.show(Number(wanted.get("from")) || 0, Number(wanted.get("to")) || Infinity);
    else if (!isAll) this.scale.show(from, to);
    this.isShown = true;
    const step = wanted.get("step");
    if (step && this.at < 0) this.at = this.rows.findIndex((row) => row.key === step);
    this.at = Math.min(this.at, this.rows.length - 1);
    this.inner.style.height = `${AXIS + this.rows.length * ROW + 6}px`;
    this.controls?.dispatchEvent(new CustomEvent("pw-scale"));
    this.paint();
  }

  /** @override @param {CanvasRenderingContext2D} on */
  draw(on) {
    const width = this.inner.clientWidth;
    const height = Math.min(this.inner.clientHeight, this.box.clientHeight);
    this.fit(on, width, height);
    const names = Math.min(MOST_NAMES, Math.round(width * 0.34));
    this.scale.left = names;
    this.scale.width = Math.max(40, width - names - 14);
    const { rows, scale, colours, at, bar, kind, brush } = this;
    const view = { top: this.box.scrollTop, width, height, names, isOpen: this.run.isOpen };
    draw(on, { rows, scale, colours, at, bar, kind, brush, ...view }, (ms) => (ms ? duration(ms).replace(".0 ", " ") : "0"));
  }

  /** @override */
  count() {
    return this.rows.length;
  }

  /** Choose a row and what it did; say it. @param {number} at @param {number} bar */
  choose(at, bar) {
    this.at = Math.max(0, Math.min(this.rows.length - 1, at));
    const row = this.rows[this.at];
    if (!row) return;
    const bars = row.isFolded ? [] : (row.steps[0]?.bars ?? []);
    this.bar = bars.length ? Math.max(0, Math.min(bars.length - 1, bar)) : -1;
    const top = this.at * ROW;
    if (top < this.box.scrollTop) this.box.scrollTop = top;
    if (top + ROW + AXIS > this.box.scrollTop + this.box.clientHeight) this.box.scrollTop = top + ROW + AXIS - this.box.clientHeight + 4;
    this.told.replaceChildren(...this.words(row, bars[this.bar]));
    if (!row.isFolded) this.dispatchEvent(new CustomEvent("pw-select", { bubbles: true, detail: { step: row.key, source: "timeline" } }));
    this.paint();
  }

  /** @param {import("./data.js").Row} row @param {import("./data.js").Bar | undefined} bar */
  words(row, bar) {
    const name = document.createElement("strong");
    name.textContent = row.isFolded ? `${row.steps.length} steps of ${row.steps[0]?.taskId}` : row.key;
    const step = row.steps[0];
    if (row.isFolded || !step) return [name, ": Enter shows them one by one."];
    const path = step.isCritical ? ", on the critical path" : "";
    if (!bar) return [name, `: ${step.status}${path}.`];
    const word = JSON.parse(this.dataset.words ?? "{}")[bar.kind] ?? bar.kind;
    const code = bar.errorCode ? ` (${bar.errorCode})` : "";
    const attempt = bar.attempt > 1 || code ? `, attempt ${bar.attempt}` : "";
    return [name, `: ${step.status}${path}. ${duration(bar.toMs - bar.fromMs)} ${word}${code}${attempt}, from ${duration(bar.fromMs)} to ${duration(bar.toMs)}.`];
  }

  /** Unfold a row of many steps, or fold it again; else open the step. */
  enter() {
    const row = this.rows[this.at];
    if (!row) return;
    if (!row.isFolded) {
      location.assign(`${document.body.dataset.root}/task-runs/${row.steps[0]?.taskRunId}`);
      return;
    }
    if (!this.open.delete(row.key)) this.open.add(row.key);
    this.layOut();
  }

  /** Show these times, and say so in the address. @param {number} from @param {number} to */
  show(from, to) {
    this.scale.show(from, to);
    const isAll = this.scale.from <= 0 && this.scale.to >= this.scale.totalMs;
    this.remember({ from: isAll ? "" : this.scale.from.toFixed(1), to: isAll ? "" : this.scale.to.toFixed(1) });
    this.controls?.dispatchEvent(new CustomEvent("pw-scale"));
    this.paint();
  }

  /** Another view of this run has chosen a step. @param {Event} event */
  follow(event) {
    const { step, source } = /** @type {CustomEvent<{step: string, source: string}>} */ (event).detail;
    if (source === "timeline") return;
    this.at = this.rows.findIndex((row) => row.key === step);
    this.paint();
  }

  /** Show only what waited for this, as a sum of the ledger names it. @param {Event} event */
  filter(event) {
    const button = event.target instanceof Element ? event.target.closest("[data-kind]") : null;
    if (!button) return;
    const kind = button.getAttribute("data-kind") ?? "";
    this.kind = this.kind === kind ? "" : kind;
    for (const each of document.querySelectorAll("[data-kind]")) {
      each.setAttribute("aria-pressed", String(each.getAttribute("data-kind") === this.kind));
    }
    this.layOut();
  }
}

customElements.define("pw-timeline", Timeline);

/** @typedef {Timeline} TimelineElement */
