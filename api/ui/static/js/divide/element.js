// <pw-divide>: the line between the steps of a run and the one that is selected. It is moved by the pointer or by
// the arrow keys, and stays where it was left, on every run. What it sets lies outside of what the server renders.

const KEPT = "pipeweave-beside";
// The share of the width that the selected step has, in percent.
const LEAST = 25, MOST = 70, FIRST = 40, STEP = 2;

class Divide extends HTMLElement {
  connectedCallback() {
    if (this.line) return;
    const line = (this.line = document.createElement("div"));
    line.tabIndex = 0;
    line.setAttribute("role", "separator");
    line.setAttribute("aria-orientation", "vertical");
    line.setAttribute("aria-label", "Width of the selected step");
    line.setAttribute("aria-valuemin", String(LEAST));
    line.setAttribute("aria-valuemax", String(MOST));
    this.append(line);
    line.addEventListener("pointerdown", (event) => event.button || line.setPointerCapture(event.pointerId));
    line.addEventListener("pointermove", (event) => line.hasPointerCapture(event.pointerId) && this.drag(event.clientX));
    line.addEventListener("pointerup", () => this.keep());
    line.addEventListener("dblclick", () => this.set(FIRST) && this.keep());
    line.addEventListener("keydown", (event) => this.press(event));
    this.set(Number(localStorage.getItem(KEPT)) || FIRST);
  }

  /** @param {number} x */
  drag(x) {
    const { left, width } = this.parentElement?.getBoundingClientRect() ?? { left: 0, width: 1 };
    this.set((100 * (left + width - x)) / width);
  }

  /** @param {KeyboardEvent} event */
  press(event) {
    /** @type {Record<string, number>} */
    const to = { ArrowLeft: this.share + STEP, ArrowRight: this.share - STEP, Home: MOST, End: LEAST };
    const share = to[event.key];
    if (share === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    this.set(share);
    this.keep();
  }

  share = FIRST;
  /** @type {HTMLElement | null} */
  line = null;

  /** @param {number} share */
  set(share) {
    this.share = Math.round(10 * Math.min(MOST, Math.max(LEAST, share))) / 10;
    document.documentElement.style.setProperty("--beside", `${this.share}%`);
    this.line?.setAttribute("aria-valuenow", String(Math.round(this.share)));
    return true;
  }

  keep() {
    localStorage.setItem(KEPT, String(this.share));
  }
}

customElements.define("pw-divide", Divide);
