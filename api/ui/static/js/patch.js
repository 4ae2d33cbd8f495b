// Puts a fragment that the server rendered into the page, and changes only what differs: focus, selection,
// scroll positions, open details and what somebody typed stay.

/** @typedef {{main: HTMLElement, etag: string, readAt: string, status: number}} Fragment */
/** @typedef {{createHTML(text: string): unknown}} Policy */

const rules = { createHTML: (/** @type {string} */ text) => text };
/** @type {Policy} */
// @ts-ignore: not every browser has trusted types
const policy = globalThis.trustedTypes ? globalThis.trustedTypes.createPolicy("pipeweave", rules) : rules;

// A connection that hangs for longer is given up.
const LONGEST_MS = 30_000;
const HEADER = "X-PipeWeave-Fragment";
const READ_AT = "X-PipeWeave-Read-At";

/**
 * The fragment of a page of this dashboard.
 * @param {string} url of the page
 * @param {string} etag of the fragment that is shown; nothing is answered when it is still the same
 * @param {string} announced the tag that the server told of; it has kept that fragment
 * @param {AbortSignal} signal gives it up
 * @returns {Promise<Fragment | null>} null: nothing has changed
 */
export async function fetchFragment(url, etag = "", announced = "", signal = AbortSignal.timeout(LONGEST_MS)) {
  const headers = {
    [HEADER]: "main",
    // Nothing older than what is shown.
    [READ_AT]: document.body.dataset.readAt ?? "0",
    ...(etag && { "If-None-Match": etag }),
    ...(announced && { "X-PipeWeave-Announced": announced }),
  };
  const answer = await fetch(url, { headers, signal, cache: "no-store", credentials: "same-origin" });
  if (answer.status === 304) return null;
  const isOurs = new URL(answer.url).origin === location.origin && answer.headers.get(HEADER) === "1";
  if (!isOurs) {
    const after = Number(answer.headers.get("Retry-After"));
    throw Object.assign(new Error(`the server answered ${answer.status}`), { status: answer.status, after });
  }
  const template = document.createElement("template");
  template.innerHTML = /** @type {string} */ (policy.createHTML(await answer.text()));
  const main = template.content.querySelector("main");
  if (!main) throw new Error("the answer has no content");
  const [etagOf, readAt] = ["ETag", READ_AT].map((name) => answer.headers.get(name) ?? "");
  return { main, etag: etagOf, readAt, status: answer.status };
}

/**
 * Make an element like another one.
 * @param {Element} old in the page
 * @param {Element} fresh from the server
 */
export function patch(old, fresh) {
  if (old.isEqualNode(fresh)) return;
  // A custom element keeps its own content, and hears of its attributes.
  attributes(old, fresh);
  if (!old.localName.startsWith("pw-") && !old.hasAttribute("data-keep")) children(old, fresh);
}

/** @param {Element} old @param {Element} fresh */
function attributes(old, fresh) {
  const kept = (/** @type {string} */ name) =>
    (name === "open" && old.localName === "details") || (name === "aria-selected" && old.hasAttribute("data-row"));
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !kept(name)) old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value && !kept(name)) old.setAttribute(name, value);
  }
}

/** The `id` of a form may be its field of that name. @param {Element} each */
const idOf = (each) => each.getAttribute("id") ?? "";

/** @param {Element} old @param {Element} fresh */
function children(old, fresh) {
  const keyed = new Map([...old.children].filter(idOf).map((each) => [idOf(each), each]));
  let at = old.firstChild;
  for (const wanted of [...fresh.childNodes]) {
    const match = matching(wanted, at, keyed);
    if (match) {
      if (match !== at) old.insertBefore(match, at);
      else at = at.nextSibling;
      update(match, wanted);
    } else {
      old.insertBefore(wanted, at);
    }
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

/** @param {Node} wanted @param {ChildNode | null} at @param {Map<string, Element>} keyed */
function matching(wanted, at, keyed) {
  if (wanted instanceof Element && idOf(wanted)) {
    const found = keyed.get(idOf(wanted));
    return found?.localName === wanted.localName ? found : null;
  }
  const isAlike = at && at.nodeType === wanted.nodeType && at.nodeName === wanted.nodeName;
  return isAlike && !(at instanceof Element && idOf(at)) ? at : null;
}

/** @param {Node} old @param {Node} wanted */
function update(old, wanted) {
  if (old instanceof Element && wanted instanceof Element) {
    // What somebody is typing into stays as it is.
    const isTyped = old === document.activeElement && old.matches("input, select, textarea");
    if (!isTyped) patch(old, wanted);
  } else if (old.nodeValue !== wanted.nodeValue) {
    old.nodeValue = wanted.nodeValue;
  }
}

/**
 * Show a new fragment of this page.
 * @param {Fragment} fragment
 */
export function show({ main, readAt }) {
  const old = document.getElementById("main");
  if (!old) return;
  if (readAt) document.body.dataset.readAt = readAt;
  document.dispatchEvent(new CustomEvent("pw-fresh", { detail: main }));
  const title = main.dataset.title;
  if (title) document.title = title;
  patch(old, main);
  document.dispatchEvent(new CustomEvent("pw-patched"));
}
