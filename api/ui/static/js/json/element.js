// <pw-json>: a JSON text as a tree that opens and closes, can be searched, and gives the path of each value. The
// text inside of it is what people see without scripts.
import { copy } from "../copy.js";

const OPEN_LEVELS = 2;
const MOST_CHILDREN = 200;

class Json extends HTMLElement {
  connectedCallback() {
    if (this.querySelector(".tree")) return;
    const source = this.querySelector("pre");
    let value;
    try {
      value = JSON.parse(source?.textContent ?? "");
    } catch {
      return; // it was cut: the text stays
    }
    if (!source || value === null || typeof value !== "object") return;
    const tree = document.createElement("div");
    tree.className = "tree";
    tree.tabIndex = 0;
    tree.setAttribute("role", "group");
    tree.setAttribute("aria-label", this.dataset.label ?? "JSON");
    tree.append(branch("", value, "", 0));
    this.prepend(this.tools(tree, source.textContent ?? ""));
    source.replaceWith(tree);
  }

  /** @param {HTMLElement} tree @param {string} text */
  tools(tree, text) {
    const bar = Object.assign(document.createElement("div"), { className: "tools" });
    const find = document.createElement("input");
    find.type = "search";
    find.placeholder = "Find";
    find.setAttribute("aria-label", `Find in ${this.dataset.label ?? "JSON"}`);
    find.addEventListener("input", () => mark(tree, find.value));
    const all = button("Copy", () => void copy(text));
    bar.append(find, all);
    return bar;
  }
}

/** @param {string} words @param {() => void} act */
function button(words, act) {
  const found = Object.assign(document.createElement("button"), { type: "button", className: "small", textContent: words });
  found.addEventListener("click", act);
  return found;
}

/** @param {string} name @param {string} text */
function span(name, text) {
  const found = Object.assign(document.createElement("span"), { className: name, textContent: text });
  return found;
}

/** @param {string} path @param {string} key @param {boolean} isIndex */
function below(path, key, isIndex) {
  if (isIndex) return `${path}[${key}]`;
  return /^[A-Za-z_][A-Za-z0-9_-]*$/.test(key) ? `${path}.${key}` : `${path}[${JSON.stringify(key)}]`;
}

/** @param {string} path */
function pathButton(path) {
  const found = button("path", () => void copy(path));
  found.classList.add("path");
  found.setAttribute("aria-label", `Copy the path ${path}`);
  return found;
}

/**
 * @param {string} key
 * @param {unknown} value
 * @param {string} path
 * @param {number} level
 * @returns {HTMLElement}
 */
function branch(key, value, path, level) {
  if (value === null || typeof value !== "object") {
    const leaf = document.createElement("span");
    leaf.className = "leaf";
    if (key) leaf.append(span("key", `${key}: `));
    leaf.append(span(`value ${typeof value}`, JSON.stringify(value)));
    if (path) leaf.append(" ", pathButton(path));
    return leaf;
  }
  const entries = Object.entries(value);
  const details = document.createElement("details");
  const summary = document.createElement("summary");
  if (key) summary.append(span("key", `${key}: `));
  const size = Array.isArray(value) ? `[${entries.length}]` : `{${entries.length}}`;
  summary.append(span("size", size));
  if (path) summary.append(" ", pathButton(path));
  details.append(summary);
  const fill = () => grow(details, entries, Array.isArray(value), path, level);
  if (level < OPEN_LEVELS && entries.length <= MOST_CHILDREN) {
    details.open = true;
    fill();
  } else {
    details.addEventListener("toggle", fill, { once: true });
    /** @type {any} */ (details).fill = fill;
  }
  return details;
}

/**
 * @param {HTMLElement} details
 * @param {[string, unknown][]} entries
 * @param {boolean} isList
 * @param {string} path
 * @param {number} level
 */
function grow(details, entries, isList, path, level) {
  if (details.children.length > 1) return;
  const add = (/** @type {number} */ from) => {
    for (const [name, inner] of entries.slice(from, from + MOST_CHILDREN)) {
      details.append(branch(name, inner, below(path, name, isList), level + 1));
    }
    const next = from + MOST_CHILDREN;
    if (next >= entries.length) return;
    const more = button(`${entries.length - next} more`, () => {
      more.remove();
      add(next);
    });
    details.append(more);
  };
  add(0);
}

/** @param {HTMLElement} tree @param {string} text */
function mark(tree, text) {
  const wanted = text.toLowerCase();
  if (wanted) {
    for (const each of tree.querySelectorAll("details")) /** @type {any} */ (each).fill?.();
  }
  /** @type {Element | null} */
  let first = null;
  for (const each of tree.querySelectorAll(".key, .value")) {
    const isHit = wanted !== "" && (each.textContent ?? "").toLowerCase().includes(wanted);
    each.classList.toggle("hit", isHit);
    if (!isHit) continue;
    first ??= each;
    for (let up = each.closest("details"); up && tree.contains(up); up = up.parentElement?.closest("details") ?? null) {
      up.open = true;
    }
  }
  first?.scrollIntoView({ block: "nearest" });
}

customElements.define("pw-json", Json);
