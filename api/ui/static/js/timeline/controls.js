// The controls of a timeline: fields and buttons for all that the pointer and the keys do.
import { AXIS, ROW } from "./draw.js";
import { button, check } from "./island.js";

const ZOOM = 1.6;

/**
 * The bar of fields and buttons; it also lets the canvas hear keys and the pointer.
 * @param {import("./element.js").TimelineElement} host
 */
export function controls(host) {
  const bar = document.createElement("div");
  bar.className = "tl-bar";
  const wanted = new URLSearchParams(location.search);
  const order = select("Order", [["level", "by level"], ["start", "by start"]], wanted.get("order") ?? "level");
  const from = seconds("From (s)");
  const to = seconds("to (s)");
  const idle = check("Shorten idle time", false, () => {
    host.remember({ idle: idle.field.checked ? "short" : "whole" });
    host.layOut();
  });
  order.field.addEventListener("change", () => {
    host.remember({ order: order.field.value === "level" ? "" : order.field.value });
    host.layOut();
  });
  for (const each of [from.field, to.field]) {
    each.addEventListener("change", () => host.show(Number(from.field.value) * 1000, Number(to.field.value) * 1000 || Infinity));
  }
  bar.addEventListener("pw-scale", () => {
    idle.field.checked = host.isShort;
    const digits = host.scale.totalMs < 10_000 ? 3 : 1;
    if (document.activeElement !== from.field) from.field.value = (host.scale.from / 1000).toFixed(digits);
    if (document.activeElement !== to.field) to.field.value = (host.scale.to / 1000).toFixed(digits);
  });
  const buttons = [
    button("Closer", () => zoom(host, 1 / ZOOM)),
    button("Wider", () => zoom(host, ZOOM)),
    button("All", () => host.show(0, Infinity)),
    button("Next failure", () => nextFailure(host)),
  ];
  bar.append(order.label, from.label, to.label, ...buttons, idle.label);
  host.canvas.addEventListener("keydown", (event) => key(host, event));
  pointer(host, host.canvas);
  return bar;
}

/** @param {import("./element.js").TimelineElement} host @param {number} factor @param {number} [around] ms */
function zoom(host, factor, around) {
  const { from, to } = host.scale;
  const middle = around ?? (from + to) / 2;
  host.show(middle - (middle - from) * factor, middle + (to - middle) * factor);
}

/** @param {import("./element.js").TimelineElement} host */
function nextFailure(host) {
  const count = host.rows.length;
  for (let step = 1; step <= count; step++) {
    const at = (Math.max(host.at, -1) + step + count) % count;
    const row = host.rows[at];
    const failed = (/** @type {import("./data.js").Step} */ each) =>
      ["failed", "timeout"].includes(each.status) || each.lane?.failed.some(Boolean) || each.bars.some((bar) => bar.kind === "failedWork");
    if (!row?.steps.some(failed)) continue;
    host.choose(at, row.steps[0]?.bars.findLastIndex((each) => each.kind === "failedWork") ?? 0);
    return;
  }
}

/** @param {import("./element.js").TimelineElement} host @param {KeyboardEvent} event */
function key(host, event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const { from, to } = host.scale;
  const part = (to - from) / 5;
  /** @type {Record<string, () => void>} */
  const known = {
    ArrowDown: () => host.choose(host.at + 1, 0),
    ArrowUp: () => host.choose(host.at - 1, 0),
    ArrowRight: () => host.choose(host.at, host.bar + 1),
    ArrowLeft: () => host.choose(host.at, host.bar - 1),
    Home: () => host.choose(0, 0),
    End: () => host.choose(host.rows.length - 1, 0),
    PageDown: () => host.choose(host.at + 20, 0),
    PageUp: () => host.choose(host.at - 20, 0),
    "+": () => zoom(host, 1 / ZOOM),
    "-": () => zoom(host, ZOOM),
    a: () => host.show(from - part, to - part),
    d: () => host.show(from + part, to + part),
    e: () => host.show(0, Infinity),
    f: () => nextFailure(host),
    Enter: () => host.enter(),
  };
  const does = known[event.key];
  if (!does) return;
  does();
  event.preventDefault();
  event.stopPropagation();
}

/** A click chooses; a drag shows the times that were dragged over; the wheel with Ctrl zooms.
 * @param {import("./element.js").TimelineElement} host @param {HTMLCanvasElement} canvas */
function pointer(host, canvas) {
  let begun = -1;
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button === 0 && event.offsetX > host.scale.left && event.pointerType !== "touch") begun = event.offsetX;
  });
  canvas.addEventListener("pointermove", (event) => {
    canvas.title = hint(host, event);
    if (begun < 0 || Math.abs(event.offsetX - begun) < 5) return;
    canvas.setPointerCapture(event.pointerId);
    host.brush = [begun, event.offsetX];
    host.paint();
  });
  canvas.addEventListener("pointerup", () => {
    const { brush } = host;
    [begun, host.brush] = [-1, null];
    if (brush) host.show(host.scale.ms(Math.min(...brush)), host.scale.ms(Math.max(...brush)));
    canvas.dataset.dragged = brush ? "1" : "";
  });
  canvas.addEventListener("click", (event) => {
    if (canvas.dataset.dragged) return;
    const [row, bar] = hit(host, event);
    if (row < 0) return;
    const isName = event.offsetX < host.scale.left;
    host.choose(row, Math.max(0, bar));
    if (isName && host.rows[row]?.isFolded) host.enter();
  });
  canvas.addEventListener("dblclick", () => host.show(0, Infinity));
  canvas.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      zoom(host, event.deltaY > 0 ? ZOOM : 1 / ZOOM, host.scale.ms(event.offsetX));
    },
    { passive: false },
  );
}

/** The row and the bar at a place. @param {import("./element.js").TimelineElement} host @param {MouseEvent} event */
function hit(host, event) {
  if (event.offsetY < AXIS) return [-1, -1];
  const at = Math.floor((event.offsetY + host.box.scrollTop - AXIS) / ROW);
  const row = host.rows[at];
  if (!row) return [-1, -1];
  const ms = host.scale.ms(event.offsetX);
  const near = ((host.scale.to - host.scale.from) / host.scale.width) * 3;
  const bars = row.isFolded ? [] : (row.steps[0]?.bars ?? []);
  return [at, bars.findIndex((bar) => ms >= bar.fromMs - near && ms <= bar.toMs + near)];
}

/** @param {import("./element.js").TimelineElement} host @param {MouseEvent} event */
function hint(host, event) {
  const [at = -1, bar = -1] = hit(host, event);
  const row = host.rows[at];
  if (!row) return "";
  return host.words(row, row.steps[0]?.bars[bar]).map((each) => (typeof each === "string" ? each : each.textContent)).join("");
}

/** @param {string} text @param {HTMLElement} field */
function labelled(text, field) {
  const label = document.createElement("label");
  label.append(text, " ", field);
  return label;
}

/** @param {string} text */
function seconds(text) {
  const field = Object.assign(document.createElement("input"), { type: "number", min: "0", step: "any" });
  return { field, label: labelled(text, field) };
}

/** @param {string} text @param {[string, string][]} options @param {string} value */
function select(text, options, value) {
  const field = document.createElement("select");
  field.append(...options.map(([name, words]) => new Option(words, name, false, name === value)));
  return { field, label: labelled(text, field) };
}
