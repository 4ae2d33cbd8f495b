// <pw-matrix data-run data-step>: a cell for each item of a map. The table and the filters below say the same.
// With data-list, the address of that table, it stands beside a run, which shows the item that is chosen (data-at).
import { Island, check } from "../timeline/island.js";
import { LEVELS, STATUS, levels, statuses } from "./decode.js";

const LEAST = 2;
const MOST = 14;
const COLOURS = { timeout: "failed", ready: "queued", cancelled: "pending", skipped: "pending" };
const KEYS =
  "Items as cells. Arrows move, Shift and arrows choose a range, F finds the next failure, Enter lists what is chosen. " +
  "The table below says the same.";

class Matrix extends Island {
  constructor() {
    super();
    this.total = 0;
    this.letters = new Uint8Array();
    this.levels = new Uint8Array();
    this.at = -1;
    this.from = -1;
    this.size = MOST;
    this.columns = 1;
    const paint = () => this.paint();
    this.byTime = check("Shade by duration", true, paint);
    this.slowest = check("Only the slowest 1 %", false, paint);
    this.failures = check("Only failures", false, paint);
  }

  connectedCallback() {
    if (this.isBegun) return;
    this.box.className = "mx-frame";
    this.box.append(this.canvas);
    const bar = document.createElement("div");
    bar.className = "tl-bar";
    bar.append(this.byTime.label, this.slowest.label, this.failures.label);
    this.told.textContent = "Each cell is an item; the stronger its colour, the longer it took among all.";
    this.append(bar, this.box, this.told);
    this.canvas.addEventListener("pointermove", (event) => this.hover(event));
    this.canvas.addEventListener("pointerdown", (event) => this.choose(this.hit(event), event.shiftKey));
    this.canvas.addEventListener("pointerup", () => (this.from === this.at ? this.announce() : this.tell()));
    this.canvas.addEventListener("dblclick", () => this.enter());
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.begin(KEYS);
  }

  /** @override @param {AbortSignal} signal */
  async read(signal) {
    const { run = "", step = "" } = this.dataset;
    const found = await this.ask(`/api/runs/${run}/steps/${encodeURIComponent(step)}/items?view=matrix`, signal);
    this.total = found.total;
    this.letters = statuses(found.matrix.statuses, found.total);
    this.levels = levels(found.matrix.durations);
    const { at = "" } = this.dataset;
    if (this.at < 0 && at && Number(at) < this.total) this.choose(Number(at), false);
    this.paint();
  }

  /** @override @param {CanvasRenderingContext2D} on */
  draw(on) {
    this.box.toggleAttribute("hidden", !this.total);
    const width = Math.max(80, this.box.clientWidth - 18);
    const room = width * Math.min(420, innerHeight * 0.5);
    this.size = Math.max(LEAST, Math.min(MOST, Math.floor(Math.sqrt(room / Math.max(1, this.total)))));
    this.columns = Math.max(1, Math.floor(width / this.size));
    this.fit(on, width, Math.ceil(this.total / this.columns) * this.size);
    this.cells(on);
    this.mark(on);
  }

  /** @override */
  count() {
    return this.total;
  }

  /** One path for each colour and shade: a hundred thousand cells are some dozens of fills.
   * @param {CanvasRenderingContext2D} on */
  cells(on) {
    const { colours } = this;
    const gap = this.size > 4 ? 1 : 0;
    /** @type {Map<string, number[]>} */
    const alike = new Map();
    for (let at = 0; at < this.total; at++) {
      const key = `${this.isDim(at) ? "d" : "s"}${this.shade(at)}${String.fromCharCode(this.letters[at] ?? 112)}`;
      const cells = alike.get(key);
      if (cells) cells.push(at);
      else alike.set(key, [at]);
    }
    for (const [key, cells] of alike) {
      const status = STATUS[/** @type {keyof typeof STATUS} */ (key.slice(2))] ?? "pending";
      on.fillStyle = colours[COLOURS[/** @type {keyof typeof COLOURS} */ (status)] ?? status] ?? "";
      on.globalAlpha = key[0] === "d" ? 0.08 : 0.3 + Number(key[1]) * 0.1;
      on.beginPath();
      for (const at of cells) {
        on.rect((at % this.columns) * this.size, Math.floor(at / this.columns) * this.size, this.size - gap, this.size - gap);
      }
      on.fill();
    }
    on.globalAlpha = 1;
  }

  /** The chosen items have a frame. @param {CanvasRenderingContext2D} on */
  mark(on) {
    if (this.at < 0) return;
    on.strokeStyle = this.colours.ink ?? "";
    on.lineWidth = 2;
    const [from, to] = this.range();
    for (let at = from; at <= to; at += this.columns - (at % this.columns)) {
      const last = Math.min(to, at - (at % this.columns) + this.columns - 1);
      const [x, y] = [(at % this.columns) * this.size, Math.floor(at / this.columns) * this.size];
      on.strokeRect(x, y, (last - at + 1) * this.size, this.size);
    }
  }

  /** Eight shades, 0 to 7. @param {number} at */
  shade(at) {
    const level = this.levels[at] ?? 255;
    // What failed is seen however short it was.
    return !this.byTime.field.checked || level === 255 || this.isFailure(at) ? 7 : Math.floor((level / LEVELS) * 8);
  }

  /** @param {number} at */
  isDim(at) {
    const level = this.levels[at] ?? 255;
    const isQuick = level === 255 || level < LEVELS - 1;
    return (this.slowest.field.checked && isQuick) || (this.failures.field.checked && !this.isFailure(at));
  }

  /** @param {number} at */
  isFailure(at) {
    return "ft".includes(String.fromCharCode(this.letters[at] ?? 0));
  }

  /** @param {MouseEvent} event */
  hit(event) {
    const column = Math.min(this.columns - 1, Math.floor(event.offsetX / this.size));
    const at = Math.floor(event.offsetY / this.size) * this.columns + column;
    return at < this.total ? at : -1;
  }

  range() {
    return this.from < 0 ? [this.at, this.at] : [Math.min(this.at, this.from), Math.max(this.at, this.from)];
  }

  /** @param {PointerEvent} event */
  hover(event) {
    const at = this.hit(event);
    this.canvas.title = at < 0 ? "" : this.words(at);
    if (at >= 0 && event.buttons === 1 && at !== this.at) this.choose(at, true, true);
  }

  /** @param {number} at @param {boolean} isRange @param {boolean} [isDragged] */
  choose(at, isRange, isDragged = false) {
    if (at < 0 || at >= this.total) return;
    if (!isRange) this.from = at;
    else if (this.from < 0) this.from = this.at < 0 ? at : this.at;
    this.at = at;
    if (!isDragged) this.tell();
    this.paint();
  }

  /** @param {number} at */
  words(at) {
    const status = STATUS[/** @type {keyof typeof STATUS} */ (String.fromCharCode(this.letters[at] ?? 112))];
    const level = this.levels[at] ?? 255;
    const time = level === 255 ? "" : `, slower than ${Math.floor((level / (LEVELS - 1)) * 99)} % of all`;
    return `Item ${at}: ${status}${time}`;
  }

  tell() {
    const [from = 0, to = 0] = this.range();
    const link = Object.assign(document.createElement("a"), { href: this.address(from, to), textContent: from === to ? "show it" : "list them" });
    /** @type {Map<string, number>} */
    const counts = new Map();
    for (let at = from; at <= to; at++) {
      const letter = /** @type {keyof typeof STATUS} */ (String.fromCharCode(this.letters[at] ?? 112));
      counts.set(STATUS[letter], (counts.get(STATUS[letter]) ?? 0) + 1);
    }
    const several = [...counts].map(([status, count]) => `${count.toLocaleString("en")} ${status}`).join(", ");
    this.told.replaceChildren(from === to ? `${this.words(from)}. ` : `Items ${from} to ${to}: ${several}. `, link);
  }

  /** Have the page show the chosen item; one that only lists items does not listen. */
  announce() {
    const detail = { step: this.dataset.step, item: this.at, source: "matrix" };
    if (this.at >= 0) this.dispatchEvent(new CustomEvent("pw-select", { bubbles: true, detail }));
  }

  /** The address of this page with only these items. @param {number} from @param {number} to */
  address(from, to) {
    const url = new URL(this.dataset.list ?? location.href, location.href);
    for (const name of ["itemStatus", "errorCode", "itemsCursor"]) url.searchParams.delete(name);
    url.searchParams.set("first", String(from));
    url.searchParams.set("last", String(to));
    return url.href;
  }

  enter() {
    const [from = 0, to = 0] = this.range();
    if (this.dataset.list && from === to) this.announce();
    else if (this.at >= 0) location.assign(this.address(from, to));
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    /** @type {Record<string, number>} */
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.columns, ArrowUp: -this.columns };
    const step = steps[event.key];
    if (step !== undefined) this.choose(Math.max(0, Math.min(this.total - 1, Math.max(this.at, 0) + (this.at < 0 ? 0 : step))), event.shiftKey);
    else if (event.key === "Enter") this.enter();
    else if (event.key === "f") this.nextFailure();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  nextFailure() {
    for (let step = 1; step <= this.total; step++) {
      const at = (Math.max(this.at, -1) + step) % this.total;
      if (this.isFailure(at)) {
        this.choose(at, false);
        return this.announce();
      }
    }
  }
}

customElements.define("pw-matrix", Matrix);
