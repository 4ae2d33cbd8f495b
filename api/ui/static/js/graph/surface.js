// The canvas below: a picture of one and a half times the view. To pan and to zoom moves the picture; it is
// drawn again when the view leaves it, or rests. So a frame costs the same for any graph.
import { drawBoxes, drawFrames } from "./boxes.js";
import { drawLinks } from "./links.js";

const MARGIN = 0.25, REST_MS = 80;
/** Boxes that are drawn one by one after a change; of more, all is drawn again. */
const SINGLY = 2_000;

export class Surface {
  /** @param {HTMLCanvasElement} canvas @param {import("./camera.js").Camera} camera */
  constructor(canvas, camera) {
    this.canvas = canvas;
    this.camera = camera;
    this.pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d", { alpha: false }));
    /** What the picture shows: left and top in world units, and the zoom. */
    this.painted = { x: 0, y: 0, zoom: 0 };
    this.rest = 0;
    /** @type {import("./boxes.js").Look | null} */
    this.look = null;
    /** How often the picture was drawn. */
    this.redraws = 0;
  }

  /** Draw all again. */
  redraw() {
    clearTimeout(this.rest);
    const { camera, canvas, look } = this, { zoom } = camera;
    if (!look || !camera.width) return;
    const ratio = window.devicePixelRatio || 1;
    const [wide, high] = [camera.width, camera.height].map((each) => Math.ceil(each * (1 + 2 * MARGIN)));
    if (canvas.width !== Math.round(wide * ratio) || canvas.height !== Math.round(high * ratio)) {
      [canvas.width, canvas.height] = [Math.round(wide * ratio), Math.round(high * ratio)];
      [canvas.style.width, canvas.style.height] = [`${wide}px`, `${high}px`];
    }
    const x = camera.x - (camera.width * MARGIN) / zoom, y = camera.y - (camera.height * MARGIN) / zoom;
    this.painted = { x, y, zoom };
    this.redraws += 1;
    const pen = this.#pen(), { scene, colours } = look, right = x + wide / zoom, bottom = y + high / zoom;
    pen.fillStyle = colours.canvas;
    pen.fillRect(x, y, right - x, bottom - y);
    drawFrames(pen, look, zoom);
    drawLinks(pen, look, scene.linksIn(x, y, right, bottom), zoom);
    pen.fillStyle = colours.ink;
    for (let at = scene.boxes; at < scene.x.length; at++) pen.fillRect(scene.x[at], scene.y[at], scene.w[at], scene.h[at]);
    drawBoxes(pen, look, scene.boxesIn(x, y, right, bottom), zoom);
    this.move();
  }

  /** Draw only these boxes again: their states have changed. @param {number[]} boxes */
  repaint(boxes) {
    const { look, painted, canvas } = this;
    if (!look || !painted.zoom) return;
    if (boxes.length > SINGLY) return this.redraw();
    const scale = painted.zoom * (window.devicePixelRatio || 1);
    const seen = new Set(look.scene.boxesIn(painted.x, painted.y, painted.x + canvas.width / scale, painted.y + canvas.height / scale));
    drawBoxes(this.#pen(), look, boxes.filter((each) => seen.has(each)), painted.zoom);
  }

  /** Show the picture where the camera looks now. */
  move() {
    const { camera, painted, canvas } = this, scale = camera.zoom / painted.zoom;
    const left = (painted.x - camera.x) * camera.zoom, top = (painted.y - camera.y) * camera.zoom;
    canvas.style.transform = `translate(${left}px, ${top}px) scale(${scale})`;
    const grown = scale * (1 + 2 * MARGIN) - 1;
    const isInside = left <= 0 && top <= 0 && left + camera.width * grown >= 0 && top + camera.height * grown >= 0;
    if (isInside && scale === 1) return;
    clearTimeout(this.rest);
    if (scale === 1) this.redraw();
    else this.rest = window.setTimeout(() => this.redraw(), REST_MS);
  }

  #pen() {
    const { pen, painted } = this, scale = painted.zoom * (window.devicePixelRatio || 1);
    pen.setTransform(scale, 0, 0, scale, -painted.x * scale, -painted.y * scale);
    return pen;
  }
}
