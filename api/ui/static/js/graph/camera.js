// Where the view is: the world's point at its top left, and the zoom; and the gestures that move it.

const LEAST = 0.0005, MOST = 2.5;
/** Pixels that a finger may move in a tap. */
const STILL = 4;

export class Camera {
  x = 0;
  y = 0;
  zoom = 1;
  width = 0;
  height = 0;

  /** @param {() => void} changed is called after each change */
  constructor(changed) {
    this.changed = changed;
  }

  /** Look at a rectangle of the world, no nearer than this. @param {number} x @param {number} y @param {number} w @param {number} h */
  show(x, y, w, h, nearest = 1) {
    this.zoom = Math.max(LEAST, Math.min(nearest, this.width / w, this.height / h));
    this.x = x + (w - this.width / this.zoom) / 2;
    this.y = y + (h - this.height / this.zoom) / 2;
    this.changed();
  }

  /** Bring a rectangle into view, unless it can be seen. @param {number} x @param {number} y @param {number} w @param {number} h */
  reveal(x, y, w, h) {
    const zoom = this.zoom < 0.3 ? 0.95 : this.zoom, right = this.x + this.width / zoom, bottom = this.y + this.height / zoom;
    const isSeen = x >= this.x && y >= this.y && x + w <= right && y + h <= bottom;
    if (!isSeen || zoom !== this.zoom) this.show(x + w / 2 - this.width / zoom / 2, y + h / 2 - this.height / zoom / 2, this.width / zoom, this.height / zoom, zoom);
  }

  /** @param {number} x @param {number} y in pixels */
  pan(x, y) {
    this.x -= x / this.zoom;
    this.y -= y / this.zoom;
    this.changed();
  }

  /** Zoom, and keep this point of the view where it is. @param {number} factor @param {number} x @param {number} y */
  zoomAt(factor, x = this.width / 2, y = this.height / 2) {
    const zoom = Math.max(LEAST, Math.min(MOST, this.zoom * factor));
    this.x += x / this.zoom - x / zoom;
    this.y += y / this.zoom - y / zoom;
    this.zoom = zoom;
    this.changed();
  }

  /** The world's point under a pixel. @param {number} x @param {number} y @returns {[number, number]} */
  at(x, y) {
    return [this.x + x / this.zoom, this.y + y / this.zoom];
  }
}

/**
 * Pan with one pointer, pinch with two, zoom with the wheel; a press that does not move is a tap.
 * @param {HTMLElement} element @param {Camera} camera
 * @param {(x: number, y: number, isShift: boolean) => void} tap @param {(x: number, y: number) => void} hover
 */
export function gestures(element, camera, tap, hover) {
  /** @type {Map<number, [number, number]>} */
  const down = new Map();
  let moved = 0;
  /** @param {MouseEvent} event @returns {[number, number]} */
  const spot = (event) => {
    const { left, top } = element.getBoundingClientRect();
    return [event.clientX - left, event.clientY - top];
  };
  element.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    down.set(event.pointerId, spot(event));
    element.setPointerCapture(event.pointerId);
    moved = down.size > 1 ? Infinity : 0;
  });
  element.addEventListener("pointermove", (event) => {
    const before = down.get(event.pointerId), now = spot(event);
    if (!before) return hover(...now);
    const other = [...down].find(([id]) => id !== event.pointerId)?.[1];
    moved += Math.hypot(now[0] - before[0], now[1] - before[1]);
    if (other) {
      const [is, was] = [now, before].map((each) => Math.hypot(each[0] - other[0], each[1] - other[1]));
      camera.zoomAt(is / Math.max(1, was), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
    }
    if (moved > STILL) camera.pan((now[0] - before[0]) / down.size, (now[1] - before[1]) / down.size);
    down.set(event.pointerId, now);
  });
  element.addEventListener("pointerup", (event) => {
    if (down.delete(event.pointerId) && moved <= STILL) tap(...spot(event), event.shiftKey);
  });
  element.addEventListener("pointercancel", (event) => down.delete(event.pointerId));
  element.addEventListener("wheel", (event) => {
    event.preventDefault();
    // A touch pad scrolls by small steps in both directions; its pinch comes with Ctrl, and a wheel in large steps.
    const isWheel = !event.deltaX && Math.abs(event.deltaY) >= 50;
    if (event.ctrlKey || isWheel) camera.zoomAt(Math.exp(-event.deltaY * (isWheel ? 0.002 : 0.01)), ...spot(event));
    else camera.pan(-event.deltaX, -event.deltaY);
  }, { passive: false });
}
