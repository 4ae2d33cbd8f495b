// `<pw-graph src="…/graph" states="…/steps" selected="step">`: the graph of a pipeline, or of a run with its states.
//
// What is selected, open and shown stands in the page's address, and the page is asked to look at it: so it can
// be linked to, and other parts follow. A page that does more itself listens to `pw-select` {step}, `pw-open`
// {step, isMap} and `pw-view` {view, open, colour}, and may prevent that.
import { CARD, SHAPE } from "./boxes.js";
import { Camera } from "./camera.js";
import { pressed, speak } from "./keys.js";
import { coloursOf } from "./looks.js";
import { drawMap, drawOverlay } from "./overlay.js";
import { fetched, pointing, remember } from "./pointing.js";
import { Scene } from "./scene.js";
import { shadesOf } from "./shades.js";
import { States } from "./states.js";
import { Surface } from "./surface.js";
import { toolsOf } from "./tools.js";

const POLL_MS = 2_000, HATCH_MS = 120, MAP_MS = 300, LINE = 48;
const ENDED = ["completed", "partial", "failed", "cancelled"];
const NOTHING = { box: -1, ordinal: 0, hover: -1, isWide: false, isTold: false, path: /** @type {Set<number> | null} */ (null) };

export class PwGraph extends HTMLElement {
  static observedAttributes = ["src", "states", "selected"];

  scene = /** @type {Scene | null} */ (null);
  states = new States(0);
  marked = { ...NOTHING };
  camera = new Camera(() => this.#moved());
  surface = /** @type {Surface | null} */ (null);
  stage = /** @type {HTMLElement | null} */ (null);
  colour = ""; src = ""; scale = 1;
  #parts = /** @type {Record<string, HTMLElement>} */ ({});
  life = new AbortController();
  #frame = 0; #phase = 0; #hatch = 0; #poll = 0; #later = 0;
  #colours = /** @type {import("./looks.js").Colours | null} */ (null);

  connectedCallback() {
    this.life = new AbortController();
    const { signal } = this.life;
    [this.colour, this.src] = ["colour", "src"].map((name) => this.getAttribute(name) ?? "");
    const parts = this.#parts = {
      view: make("div", "view"), stage: make("div", "stage"), spoken: make("p", "spoken unseen"),
      picture: make("canvas", "picture"), above: make("canvas", "above"),
      map: make("canvas", "map"), frame: make("div", "frame"), window: make("div", "window"),
    };
    const stage = this.stage = Object.assign(parts.stage, { tabIndex: 0 });
    stage.setAttribute("role", "application");
    stage.setAttribute("aria-label", "Graph. Arrow keys go along its edges, Enter opens, F selects what failed.");
    parts.spoken.setAttribute("aria-live", "polite");
    parts.map.setAttribute("aria-hidden", "true");
    parts.frame.append(parts.window);
    stage.append(parts.picture, parts.above, parts.map, parts.frame);
    parts.view.append(toolsOf(this, this.hasAttribute("states")), stage, parts.spoken);
    parts.view.hidden = true;
    this.append(parts.view);
    this.surface = new Surface(/** @type {HTMLCanvasElement} */ (parts.picture), this.camera);
    pointing(this, parts.map);
    stage.addEventListener("keydown", (event) => pressed(this, event));
    const size = new ResizeObserver(() => this.#sized());
    size.observe(stage);
    const theme = new MutationObserver(() => this.refresh());
    theme.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    signal.addEventListener("abort", () => [size, theme].forEach((each) => each.disconnect()));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.refresh(), { signal });
    for (const news of ["pw-run", "pw-patched"]) document.addEventListener(news, () => this.#ask(), { signal });
    this.load();
  }

  disconnectedCallback() {
    this.life.abort();
    for (const timer of [this.#poll, this.#hatch, this.#later]) clearTimeout(timer);
    cancelAnimationFrame(this.#frame);
    this.#parts.view.remove();
    this.scene = this.surface = null;
  }

  /** @param {string} name @param {string | null} before @param {string | null} now */
  attributeChangedCallback(name, before, now) {
    if (!this.surface || before === now) return;
    if (name === "selected") this.select(now ?? "", { isTold: true });
    else if (name === "states") this.#ask();
    else if (this.src !== (this.src = now ?? "")) this.load();
  }

  /** Get the graph, from the top down where its figures could not be read otherwise; then how far its run is. */
  async load() {
    let graph = await fetched(this, this.src);
    if (!this.src.includes("direction=") && this.clientWidth < graph?.width * CARD && graph.width > 3 * graph.height && graph.stepCount < 500) graph = await fetched(this, (this.src += `${this.src.includes("?") ? "&" : "?"}direction=down`));
    if (graph) this.show(graph);
    this.#ask();
  }

  /** @param {import("./scene.js").GraphDocument} graph */
  show(graph) {
    const before = this.scene?.graph;
    this.scene = new Scene(graph, (this.getAttribute("changed") ?? "").split(" "));
    if (this.states.letters.length !== graph.steps.ids.length + 1) this.states = new States(graph.steps.ids.length);
    for (const each of this.querySelectorAll(":scope > .graph-static")) /** @type {HTMLElement} */ (each).hidden = true;
    this.#parts.view.hidden = false;
    this.marked = { ...NOTHING };
    if (before?.view !== graph.view || before.version !== graph.version || before.direction !== graph.direction) this.fit(true);
    this.refresh();
    this.select(this.getAttribute("selected") ?? "", { isTold: true });
  }

  /** Take in states, and draw what has changed. @param {import("./states.js").StepStates} given */
  apply(given) {
    const { scene, surface } = this;
    if (!scene || !surface) return;
    const isNew = !this.states.isKnown, wasOpen = !isNew && !ENDED.includes(this.states.runStatus);
    const boxes = new Set([...this.states.apply(given)].map((each) => scene.boxOf[each]));
    if (wasOpen && ENDED.includes(given.status)) document.dispatchEvent(new CustomEvent("pw-ended"));
    if (isNew || (this.colour && boxes.size) || given.statuses.includes("s")) return this.refresh();
    surface.repaint([...boxes].filter((each) => each >= 0));
    if (boxes.size) this.#later ||= window.setTimeout(() => this.#drawMap(), MAP_MS);
    return this.draw();
  }

  look() {
    const shades = this.colour && this.states.isKnown ? shadesOf(this.colour, this.states) : null;
    return { scene: /** @type {Scene} */ (this.scene), states: this.states, colours: (this.#colours ??= coloursOf(this)), shades };
  }

  /** Draw all again, with the colours as they are now. */
  refresh() {
    this.#colours = null;
    if (!this.scene || !this.surface) return;
    this.surface.look = this.look();
    this.surface.redraw();
    this.#drawMap();
    this.#moved();
  }

  #drawMap() {
    clearTimeout(this.#later);
    this.#later = 0;
    if (this.scene) this.scale = drawMap(/** @type {HTMLCanvasElement} */ (this.#parts.map), this.look());
  }

  /** Draw what is above the picture, with the next frame. */
  draw() {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      const pen = /** @type {HTMLCanvasElement} */ (this.#parts.above).getContext("2d");
      if (!pen || !this.surface?.look) return;
      const moves = drawOverlay(pen, this.surface.look, this.camera, this.marked, this.#phase);
      clearTimeout(this.#hatch);
      if (!moves || document.hidden || matchMedia("(prefers-reduced-motion: reduce)").matches) return;
      this.#hatch = window.setTimeout(() => { this.#phase += 2; this.draw(); }, HATCH_MS);
    });
  }

  /** Show all, in a stage that is no higher than it needs; at first not what would be a line of dots. */
  fit(isFirst = false) {
    const { scene, stage, camera } = this;
    if (!scene || !stage || !camera.width) return;
    const { width, height } = scene.graph, fitting = height * Math.min(1, camera.width / width) + 16;
    stage.style.height = `${Math.max(240, Math.min(0.6 * innerHeight, fitting))}px`;
    camera.height = stage.clientHeight;
    camera.show(0, 0, width, height);
    if (isFirst && camera.zoom < SHAPE && fitting < LINE) camera.reveal(scene.x[0], scene.y[0], scene.w[0], scene.h[0]);
  }

  /** Select a step; in the pattern, its class too. @param {string} step @param {{isTold?: boolean, isWide?: boolean}} how */
  select(step, { isTold = false, isWide = false } = {}) {
    const { scene } = this, ordinal = scene?.ordinals.get(step) ?? 0, box = ordinal && scene ? scene.boxOf[ordinal] : -1;
    if (!scene || (isTold && ordinal === this.marked.ordinal)) return;
    this.marked = { ...this.marked, box, ordinal, isWide, isTold, path: null };
    if (box >= 0) this.camera.reveal(scene.x[box], scene.y[box], scene.w[box], scene.h[box]);
    if (box >= 0) this.#parts.spoken.textContent = speak(this.look(), box, ordinal);
    if (!isTold) this.tell("pw-select", { step: step || null });
    this.draw();
  }

  /** Open or close a class in its place; a step's own page opens, and the items of a map; of a run inside, its page. @param {number} box */
  toggle(box) {
    const { scene } = this;
    if (!scene || box < 0) return;
    if (scene.graph.boxes.inside[box]) return /** @type {HTMLElement | null} */ (document.querySelector("[data-opens-run]"))?.click();
    if (!scene.isClass(box)) return this.tell("pw-open", { step: scene.title(box), isMap: scene.maps.has(box) });
    const key = scene.graph.boxes.keys[box], { open } = scene.graph;
    this.go({ open: open.includes(key) ? open.filter((each) => each !== key) : [...open, key] });
  }

  /** Show another view of the graph. @param {{view?: string, open?: string[], direction?: string}} to */
  go({ view = this.scene?.graph.view ?? "all", open = [], direction = this.scene?.graph.direction ?? "right" }) {
    const url = new URL(this.src, document.baseURI), shown = { view, open: open.join(","), direction };
    for (const [name, value] of Object.entries(shown)) url.searchParams.set(name, value);
    this.src = url.pathname + url.search;
    this.tell("pw-view", { ...shown, direction: direction === "right" ? "" : direction });
    return this.load();
  }

  /** Colour the boxes by something else. @param {string} colour */
  paint(colour) {
    this.colour = colour;
    this.tell("pw-view", { colour });
    this.refresh();
  }

  /** Say what happens, and put it into the page's address. @param {string} name @param {Record<string, unknown>} detail */
  tell(name, detail) {
    const isDone = !this.dispatchEvent(new CustomEvent(name, { bubbles: true, cancelable: true, detail }));
    // A page that selects for all its parts does that by itself.
    if (isDone || name === "pw-open" || (name === "pw-select" && this.closest("[data-selects]"))) return;
    remember(detail);
  }

  #moved() {
    if (!this.scene || !this.surface) return;
    const { x, y, width, height, zoom } = this.camera, scale = this.scale, { style } = this.#parts.window;
    const [left, top, right, bottom] = [x, y, x + width / zoom, y + height / zoom].map((each) => each * scale);
    this.#parts.map.hidden = this.#parts.frame.hidden = Math.max(left, top, this.scene.graph.width * scale - right, this.scene.graph.height * scale - bottom) < 0.5;
    style.left = `${Math.max(0, left)}px`;
    style.top = `${Math.max(0, top)}px`;
    style.width = `${Math.max(0, Math.min(160, right) - Math.max(0, left))}px`;
    style.height = `${Math.max(0, Math.min(110, bottom) - Math.max(0, top))}px`;
    this.surface.move();
    this.draw();
  }

  #sized() {
    const { camera, stage } = this, isFirst = !camera.width, ratio = window.devicePixelRatio || 1;
    if (!stage?.clientWidth) return;
    [camera.width, camera.height] = [stage.clientWidth, stage.clientHeight];
    const above = /** @type {HTMLCanvasElement} */ (this.#parts.above);
    [above.width, above.height] = [Math.round(camera.width * ratio), Math.round(camera.height * ratio)];
    if (isFirst) this.fit(true);
    this.surface?.redraw();
    this.draw();
  }

  /** Ask what has changed in the run, and again after a while. */
  async #ask() {
    clearTimeout(this.#poll);
    const address = this.getAttribute("states"), { cursor, runStatus } = this.states;
    if (!address || !this.scene || (ENDED.includes(runStatus) && cursor === this.states.cursor && document.hidden)) return;
    const given = document.hidden ? null : await fetched(this, address + (cursor ? `?after=${cursor}` : ""));
    if (given && cursor === this.states.cursor) this.apply(given);
    clearTimeout(this.#poll);
    if (this.isConnected && !ENDED.includes(this.states.runStatus)) this.#poll = window.setTimeout(() => this.#ask(), POLL_MS);
  }
}

/** @param {string} tag @param {string} name */
function make(tag, name) {
  return Object.assign(document.createElement(tag), { className: `graph-${name}` });
}

customElements.define("pw-graph", PwGraph);
