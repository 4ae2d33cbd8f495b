// A line of a log as the server writes it (api/ui/logs.py): number, time, level, message with its colours, the
// members beside the message, and the traceback.
import { clockOf } from "../time.js";

const OWN = new Set(
  (
    "time timestamp level message logger exception exception_type runId run_id task_run_id trace_id tenant step_id" +
    " task_id pipeline_id attempt map_index"
  ).split(" "),
);
const LEVELS = ["debug", "info", "warning", "error", "critical"];
const SGR = /\u001b\[([0-9;]*)m/g;
const OTHER = /\u001b(\[[0-9;?]*[A-Za-z]|\][^\u0007]*\u0007|.)?/g;

/** @param {unknown} value */
const text = (value) => (value === null || value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value));

/** @param {string} name @param {string} words */
function span(name, words) {
  const found = document.createElement("span");
  if (name) found.className = name;
  found.textContent = words;
  return found;
}

/** @param {number} number @param {Record<string, unknown>} given */
export function line(number, given) {
  const said = text(given.level).toLowerCase();
  const named = /** @type {Record<string, string>} */ ({ warn: "warning", fatal: "critical" })[said] ?? said;
  const level = LEVELS.includes(named) ? named : "info";
  const row = Object.assign(document.createElement("div"), { className: `ln lv-${level}`, id: `L${number}` });
  const link = Object.assign(document.createElement("a"), { className: "no" });
  const url = new URL(location.href);
  url.searchParams.set("line", String(number));
  url.hash = row.id;
  link.href = url.href;
  link.textContent = String(number);
  const body = span("tx", "");
  const time = text(given.time ?? given.timestamp);
  if (time) body.append(clockOf(time), " ");
  if (level !== "info") body.append(span("lv", level), " ");
  coloured(body, text(given.message));
  const more = Object.entries(given).filter(([name, value]) => !OWN.has(name) && value !== null);
  if (more.length) body.append(" ", span("muted", JSON.stringify(Object.fromEntries(more))));
  if (given.exception) body.append(`\n${text(given.exception)}`);
  row.append(link, body);
  return row;
}

/** @param {HTMLElement} body @param {string} message */
function coloured(body, message) {
  /** @type {string[]} */
  let classes = [];
  for (const [index, piece] of message.split(SGR).entries()) {
    if (index % 2) {
      for (const code of piece.split(";").map((each) => Number(each || 0))) classes = changed(classes, code);
      continue;
    }
    const plain = piece.replace(OTHER, "");
    if (plain) body.append(classes.length ? span(classes.join(" "), plain) : plain);
  }
}

/** @param {string[]} classes @param {number} code */
function changed(classes, code) {
  if (code === 0) return [];
  if (code === 1) return [...classes.filter((each) => each !== "ansi-bold"), "ansi-bold"];
  const isColour = (code >= 30 && code <= 37) || (code >= 90 && code <= 97);
  if (!isColour && code !== 39) return classes;
  const kept = classes.filter((each) => !each.startsWith("ansi-c"));
  return code === 39 ? kept : [...kept, `ansi-c${code % 10}`];
}
