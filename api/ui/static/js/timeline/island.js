// What a canvas island does: it draws with the next frame, in the page's colours, and reads again what it shows
// when the server says that it is another.

const LOOK_AGAIN_MS = 1500;
const NAMES = ["ink", "muted", "line", "panel", "hover", "completed", "running", "failed", "queued", "waiting", "pending"];

export class Island extends HTMLElement {
  static observedAttributes = ["data-version"];

  constructor() {
    super();
    this.canvas = document.createElement("canvas");
    this.told = document.createElement("p");
    this.box = document.createElement("div");
    /** @type {Record<string, string>} */
    this.colours = {};
    this.aborts = new AbortController();
    this.isBegun = false;
    this.isRead = false;
    this.lookedAt = 0;
    this.frame = 0;
    this.waits = 0;
  }

  /** Begin to draw. @param {string} label says to people who do not see what the keys do */
  begin(label) {
    this.isBegun = true;
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application");
    this.canvas.setAttribute("aria-label", label);
    this.told.className = "tl-told";
    this.told.setAttribute("aria-live", "polite");
    const { signal } = this.aborts;
    const recolour = () => {
      this.colours = {};
      this.paint();
    };
    document.addEventListener("pw-theme", recolour, { signal });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour, { signal });
    new ResizeObserver(() => this.paint()).observe(this.box);
    void this.look();
  }

  disconnectedCallback() {
    this.aborts.abort();
  }

  attributeChangedCallback() {
    if (!this.isBegun) return;
    clearTimeout(this.waits);
    this.waits = setTimeout(() => this.look(), Math.max(0, this.lookedAt + LOOK_AGAIN_MS - performance.now()));
  }

  /** Read what is shown, and show it. */
  async look() {
    this.lookedAt = performance.now();
    try {
      await this.read(this.aborts.signal);
      this.isRead = true;
    } catch (error) {
      if (this.aborts.signal.aborted) return;
      this.told.textContent = `It could not be read: ${error instanceof Error ? error.message : error}.`;
    }
  }

  /** @param {AbortSignal} _signal @returns {Promise<void>} */
  async read(_signal) {}

  /** An answer of the API. @param {string} path @param {AbortSignal} signal */
  async ask(path, signal) {
    const answer = await fetch(path, { headers: { "X-Tenant": document.body.dataset.tenant ?? "" }, signal });
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    return answer.json();
  }

  /** Draw with the next frame. */
  paint() {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => {
      if (!Object.keys(this.colours).length) this.colours = palette(this);
      const on = this.canvas.getContext("2d");
      if (!on) return;
      this.draw(on);
      // For whoever waits for it; attributes of the element itself are the server's.
      if (this.isRead) this.box.dataset.drawn = String(this.count());
    });
  }

  /** @param {CanvasRenderingContext2D} _on */
  draw(_on) {}

  /** How many rows or cells are shown. */
  count() {
    return 0;
  }

  /** Make the canvas so large (pixels of the page). @param {CanvasRenderingContext2D} on @param {number} width @param {number} height */
  fit(on, width, height) {
    const dense = devicePixelRatio || 1;
    const [wide, high] = [Math.round(width * dense), Math.round(height * dense)];
    if (this.canvas.width !== wide || this.canvas.height !== high) {
      [this.canvas.width, this.canvas.height] = [wide, high];
      this.canvas.style.width = `${width}px`;
      this.canvas.style.height = `${height}px`;
    }
    on.setTransform(dense, 0, 0, dense, 0, 0);
    on.clearRect(0, 0, width, height);
  }

  /** Say in the address what is shown. @param {Record<string, string>} changes an empty one is removed */
  remember(changes) {
    const url = new URL(location.href);
    for (const [name, value] of Object.entries(changes)) {
      if (value) url.searchParams.set(name, value);
      else url.searchParams.delete(name);
    }
    if (url.href === location.href) return;
    history.replaceState(history.state, "", url);
    document.dispatchEvent(new CustomEvent("pw-moved"));
  }
}

/** The colours of the page as it is now. @param {Element} host */
function palette(host) {
  const probe = document.createElement("i");
  host.append(probe);
  const found = NAMES.map((name) => {
    // Areas are calmer than marks.
    probe.style.color = `var(--area-${name}, var(--${name}))`;
    return [name, getComputedStyle(probe).color];
  });
  probe.remove();
  return Object.fromEntries(found);
}

/** @param {string} text @param {() => void} press */
export function button(text, press) {
  const found = Object.assign(document.createElement("button"), { type: "button", className: "button", textContent: text });
  found.addEventListener("click", press);
  return found;
}

/** A box to check, with its words. @param {string} text @param {boolean} isOn @param {() => void} change */
export function check(text, isOn, change) {
  const field = Object.assign(document.createElement("input"), { type: "checkbox", checked: isOn });
  field.addEventListener("change", change);
  const label = Object.assign(document.createElement("label"), { className: "check" });
  label.append(field, text);
  return { field, label };
}
