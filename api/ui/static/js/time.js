// Times in the reader's zone, and relative ones while they are young.

const HOUR = 3_600_000;
const format = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium", hourCycle: "h23" });
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const precise = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3, hourCycle: "h23" });
const minutes = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const dated = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23" });

export function startTimes() {
  show();
  document.addEventListener("pw-patched", show);
  setInterval(() => document.visibilityState === "visible" && show(), 5000);
  setInterval(() => document.visibilityState === "visible" && tick(), 1000);
}

/**
 * A time as people read it.
 * @param {number} at milliseconds since 1970
 * @param {number} now
 */
export function relative(at, now) {
  const past = now - at;
  if (past < -HOUR || past >= HOUR) {
    return onClock(at, now);
  }
  const seconds = Math.round(Math.abs(past) / 1000);
  if (!seconds) return "just now";
  const text = seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min`;
  return past >= 0 ? `${text} ago` : `in ${text}`;
}

/** @param {number} at @param {number} now */
function onClock(at, now) {
  return new Date(at).toDateString() === new Date(now).toDateString() ? clock.format(at) : format.format(at);
}

/**
 * The time of a line of a log as the server's filter `clock` writes it, in the reader's zone; without one it is in UTC.
 * @param {string} said
 */
export function clockOf(said) {
  const at = new Date((/(Z|[+-]\d\d(:?\d\d)?)$/i.test(said.slice(10)) ? said : `${said}Z`).replace(",", "."));
  if (Number.isNaN(at.getTime())) return said;
  // Logs are long: their times are not looked at again.
  const place = Object.assign(document.createElement("time"), { title: at.toISOString(), textContent: precise.format(at) });
  place.dataset.plain = "";
  return place;
}

/**
 * A duration as the server writes it.
 * @param {number} ms
 */
export function duration(ms) {
  if (ms < 1) return "< 1 ms";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 59.95) return `${seconds.toFixed(1)} s`;
  const [size, step, big, small] =
    seconds < 3600 ? [60, 1, "min", "s"] : seconds < 86400 ? [3600, 60, "h", "min"] : [86400, 3600, "d", "h"];
  const whole = Math.floor(Math.max(seconds, 60) / Number(size));
  const rest = Math.floor((Math.floor(Math.max(seconds, 60)) % Number(size)) / Number(step));
  return rest ? `${whole} ${big} ${rest} ${small}` : `${whole} ${big}`;
}

/** How long ago something began that goes on, in whole seconds. */
function tick() {
  for (const each of document.querySelectorAll("[data-since]")) {
    const seconds = Math.max(0, Math.floor((Date.now() - Date.parse(each.getAttribute("data-since") ?? "")) / 1000));
    const text = seconds < 60 ? `${seconds} s` : duration(seconds * 1000);
    if (each.textContent !== text) each.textContent = text;
  }
}

function show() {
  tick();
  const now = Date.now();
  for (const each of document.querySelectorAll("time[datetime]:not([data-plain])")) {
    const at = Date.parse(each.getAttribute("datetime") ?? "");
    if (Number.isNaN(at)) continue;
    const text = each.hasAttribute("data-clock")
      ? precise.format(at)
      : each.hasAttribute("data-exact")
        ? onClock(at, now)
        : relative(at, now);
    if (each.textContent !== text) each.textContent = text;
    const title = `${format.format(at)}, ${each.getAttribute("datetime")}`;
    if (each.getAttribute("title") !== title) each.setAttribute("title", title);
  }
  // Charts: the text begins with the label, a time in UTC.
  for (const each of document.querySelectorAll("[data-at][data-label]")) {
    const at = new Date(each.getAttribute("data-at") ?? "");
    const shown = (each.hasAttribute("data-dated") ? dated : minutes).format(at);
    const text = each.textContent?.replace(each.getAttribute("data-label") ?? "", shown) ?? "";
    if (each.textContent !== text) each.textContent = text;
  }
}
