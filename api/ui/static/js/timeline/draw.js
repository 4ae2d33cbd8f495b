// Draws the rows of a timeline that are in view. What it costs depends on the view, not on the run.

/** @typedef {import("./data.js").Row} Row */
/** @typedef {import("./data.js").Bar} Bar */
/** @typedef {import("./data.js").Step} Step */

const SANS = getComputedStyle(document.documentElement).getPropertyValue("--sans");
export const ROW = 24;
export const AXIS = 26;
const BAR = 13;
const LOST = ["failed", "timeout", "cancelled"];
const HATCHED = ["taskLimit", "tenantLimit", "pause", "sameKey"];

/** The status colour of a bar. @param {string} kind @param {string} status */
export function colourOf(kind, status) {
  if (kind === "work" || kind === "items") return status === "running" || status === "waiting" ? "running" : "completed";
  if (kind === "failedWork") return "failed";
  if (["asleep", "approval", "signal", "child", "outside"].includes(kind)) return "waiting";
  return kind === "queue" || kind === "taskLimit" || kind === "tenantLimit" ? "queued" : "pending";
}

/**
 * @typedef {{rows: Row[], scale: import("./scale.js").Scale, colours: Record<string, string>, top: number,
 *   width: number, height: number, names: number, isOpen: boolean, at: number, bar: number, kind: string,
 *   brush: [number, number] | null}} Scene
 */

/** @param {CanvasRenderingContext2D} on @param {Scene} scene @param {(ms: number) => string} told */
export function draw(on, scene, told) {
  const { colours, width, height, names } = scene;
  on.font = `12px ${SANS}`;
  on.textBaseline = "middle";
  const first = Math.max(0, Math.floor((scene.top - AXIS) / ROW));
  const last = Math.min(scene.rows.length, Math.ceil((scene.top + height) / ROW));
  grid(on, scene);
  for (let index = first; index < last; index++) {
    const row = scene.rows[index];
    if (row) drawRow(on, scene, row, index, AXIS + index * ROW - scene.top);
  }
  on.fillStyle = colours.panel ?? "";
  on.fillRect(0, 0, width, AXIS);
  on.fillStyle = colours.muted ?? "";
  for (const ms of scene.scale.ticks()) on.fillText(told(ms), scene.scale.x(ms) + 4, AXIS / 2);
  line(on, colours.line, 0, AXIS - 0.5, width, AXIS - 0.5);
  line(on, colours.line, names - 0.5, 0, names - 0.5, height);
  if (scene.brush) {
    const [a, b] = scene.brush;
    on.globalAlpha = 0.14;
    on.fillStyle = colours.ink ?? "";
    on.fillRect(Math.min(a, b), 0, Math.abs(b - a), height);
    on.globalAlpha = 1;
  }
}

/** @param {CanvasRenderingContext2D} on @param {Scene} scene */
function grid(on, scene) {
  const { colours, height, scale, names } = scene;
  for (const ms of scale.ticks()) line(on, colours.line, scale.x(ms), AXIS, scale.x(ms), height);
  for (const [from, to] of scale.gaps) {
    const [a, b] = [Math.max(names, scale.x(from)), scale.x(to)];
    if (b <= a) continue;
    on.fillStyle = colours.hover ?? "";
    on.fillRect(a, AXIS, b - a, height);
  }
  if (scene.isOpen && scale.to >= scale.totalMs) {
    line(on, colours.running, scale.x(scale.totalMs) - 1, AXIS, scale.x(scale.totalMs) - 1, height);
  }
}

/** @param {CanvasRenderingContext2D} on @param {Scene} scene @param {Row} row @param {number} index @param {number} top */
function drawRow(on, scene, row, index, top) {
  const { colours, names, width } = scene;
  if (index === scene.at) {
    on.fillStyle = colours.hover ?? "";
    on.fillRect(0, top, width, ROW);
  }
  on.save();
  on.beginPath();
  on.rect(0, top, names - 8, ROW);
  on.clip();
  on.fillStyle = colours.ink ?? "";
  on.fillText(row.label + (row.steps[0]?.mapCount != null ? ` × ${row.steps[0].mapCount.toLocaleString("en")}` : ""), 10, top + ROW / 2);
  on.restore();
  on.save();
  on.beginPath();
  on.rect(names, top, width - names, ROW);
  on.clip();
  const step = row.steps[0];
  if (step && !row.isFolded) bars(on, scene, step, top, index === scene.at ? scene.bar : -1);
  if (row.lane) lane(on, scene, row, top);
  on.restore();
}

/** @param {CanvasRenderingContext2D} on @param {Scene} scene @param {Step} step @param {number} top @param {number} chosen */
function bars(on, scene, step, top, chosen) {
  const { scale, colours, kind } = scene;
  const y = top + (ROW - BAR) / 2;
  step.bars.forEach((bar, number) => {
    if (bar.kind === "items" && step.lane) return;
    const x = scale.x(bar.fromMs);
    const wide = Math.max(scale.x(bar.toMs) - x, 1.5);
    if (x > scene.width || x + wide < scene.names) return;
    on.globalAlpha = (kind && kind !== bar.kind ? 0.2 : 1) * (bar.kind === "queue" || bar.kind === "items" ? 0.5 : 1);
    on.fillStyle = colours[colourOf(bar.kind, step.status)] ?? "";
    // What was tried again is hollow; red is what failed for good.
    const isHollow = bar.kind === "failedWork" && !LOST.includes(step.status);
    if (isHollow) frame(on, colours.failed, x + 0.5, y + 0.5, Math.max(1, wide - 1), BAR - 1, 1);
    else on.fillRect(x, y, wide, BAR);
    on.globalAlpha = 1;
    if (HATCHED.includes(bar.kind)) hatch(on, colours.panel, x, y, wide);
    if (bar.kind === "retryDelay") for (let at = x + 3; at < x + wide; at += 6) on.clearRect(at, y, 3, BAR);
    if (bar.kind === "failedWork") notch(on, scene, bar, x + wide, y, wide, isHollow);
    if (number === chosen) frame(on, colours.ink, x - 2, y - 3, wide + 4, BAR + 6, 2);
  });
  const [begin, end] = [step.bars[0], step.bars[step.bars.length - 1]];
  if (step.isCritical && begin && end && !step.lane) {
    const x = scale.x(begin.fromMs);
    frame(on, colours.ink, x - 1.5, y - 1.5, Math.max(scale.x(end.toMs) - x, 1.5) + 3, BAR + 3, 1);
  }
}

/** The end of an attempt that failed, with its error code where there is room.
 * @param {CanvasRenderingContext2D} on @param {Scene} scene @param {Bar} bar @param {number} x @param {number} y @param {number} wide @param {boolean} isHollow */
function notch(on, scene, bar, x, y, wide, isHollow) {
  on.fillStyle = scene.colours.ink ?? "";
  on.beginPath();
  on.moveTo(x, y + BAR);
  on.lineTo(x - 4, y + BAR + 4);
  on.lineTo(x + 4, y + BAR + 4);
  on.fill();
  if (bar.errorCode && wide > on.measureText(bar.errorCode).width + 10) {
    on.fillStyle = (isHollow ? scene.colours.ink : scene.colours.panel) ?? "";
    on.fillText(bar.errorCode, x - wide + 5, y + BAR / 2 + 0.5);
  }
}

/** How many ran at a time, as an area; failures as ticks.
 * @param {CanvasRenderingContext2D} on @param {Scene} scene @param {Row} row @param {number} top */
function lane(on, scene, row, top) {
  const { scale, colours } = scene;
  const found = row.lane;
  if (!found) return;
  const highest = found.running.reduce((most, each) => Math.max(most, each), 0) || 1;
  const wide = (found.toMs - found.fromMs) / found.running.length;
  const base = top + ROW - 4;
  const isOpen = row.steps.some((each) => each.status === "running" || each.status === "waiting");
  on.fillStyle = colours[isOpen ? "running" : "completed"] ?? "";
  on.globalAlpha = scene.kind && !["work", "items"].includes(scene.kind) ? 0.25 : 0.8;
  on.beginPath();
  on.moveTo(scale.x(found.fromMs), base);
  found.running.forEach((value, index) => {
    const y = base - (value / highest) * (ROW - 8);
    on.lineTo(scale.x(found.fromMs + index * wide), y);
    on.lineTo(scale.x(found.fromMs + (index + 1) * wide), y);
  });
  on.lineTo(scale.x(found.toMs), base);
  on.fill();
  on.globalAlpha = 1;
  on.fillStyle = colours.failed ?? "";
  found.failed.forEach((count, index) => {
    if (count) on.fillRect(scale.x(found.fromMs + (index + 0.5) * wide) - 1, base - 8, 2, 11);
  });
}

/** @param {CanvasRenderingContext2D} on @param {string | undefined} colour @param {number} x @param {number} y @param {number} wide */
function hatch(on, colour, x, y, wide) {
  on.save();
  on.beginPath();
  on.rect(x, y, wide, BAR);
  on.clip();
  on.strokeStyle = colour ?? "";
  on.lineWidth = 2;
  on.globalAlpha = 0.75;
  on.beginPath();
  const [from, to] = [Math.max(x, 0) - BAR, Math.min(x + wide, on.canvas.clientWidth + BAR)];
  for (let at = from - (from % 6); at < to; at += 6) {
    on.moveTo(at, y + BAR);
    on.lineTo(at + BAR, y);
  }
  on.stroke();
  on.restore();
}

/** @param {CanvasRenderingContext2D} on @param {string | undefined} colour @param {number} x @param {number} y @param {number} wide @param {number} high @param {number} line */
function frame(on, colour, x, y, wide, high, line) {
  on.strokeStyle = colour ?? "";
  on.lineWidth = line;
  on.strokeRect(x, y, wide, high);
}

/** @param {CanvasRenderingContext2D} on @param {string | undefined} colour @param {number} x @param {number} y @param {number} toX @param {number} toY */
function line(on, colour, x, y, toX, toY) {
  on.strokeStyle = colour ?? "";
  on.lineWidth = 1;
  on.beginPath();
  on.moveTo(x, y);
  on.lineTo(toX, toY);
  on.stroke();
}
