// <pw-log>: the whole log of an attempt as lines of the document, so that finding, selecting and copying are the
// browser's own; it follows a log that grows. Blocks out of sight cost nothing (content-visibility).
import { line } from "./line.js";

const LINES_A_BLOCK = 500;
const MOST_LINES = 50_000;
const LOOK_MS = 1000;

class Log extends HTMLElement {
  next = 0;
  count = 0;
  isOver = false;
  isFollowing = false;
  /** @type {HTMLElement | null} */
  place = null;
  /** @type {number | undefined} */
  timer = undefined;

  connectedCallback() {
    if (this.place || this.dataset.live !== "yes") return;
    this.place = this.querySelector(".log");
    this.isFollowing = this.dataset.grows === "yes" && !this.dataset.line;
    this.prepend(this.bar());
    void this.load();
  }

  disconnectedCallback() {
    clearTimeout(this.timer);
  }

  bar() {
    const bar = document.createElement("div");
    bar.className = "log-bar";
    const follow = check("Follow", this.isFollowing, (on) => {
      this.isFollowing = on;
      if (on) this.toEnd();
    });
    const wrap = check("Wrap", true, (on) => this.classList.toggle("nowrap", !on));
    const newest = document.createElement("button");
    newest.type = "button";
    newest.className = "small";
    newest.textContent = "Jump to newest";
    newest.addEventListener("click", () => this.toEnd());
    const told = document.createElement("span");
    told.className = "muted told";
    bar.append(follow, wrap, newest, told);
    return bar;
  }

  /** Read what is stored, from the place that was reached on; then again after a while, if more may come. */
  async load() {
    try {
      for (let isMore = true; isMore && !this.isOver && this.count < MOST_LINES; ) isMore = await this.page();
    } catch {
      this.tell("it cannot be read now");
    }
    if (!this.isOver && this.count < MOST_LINES && this.isConnected) {
      this.timer = setTimeout(() => this.load(), document.visibilityState === "hidden" ? 10 * LOOK_MS : LOOK_MS);
    }
  }

  /** @returns {Promise<boolean>} whether there was anything */
  async page() {
    const headers = { "X-Tenant": this.dataset.tenant ?? "" };
    const answer = await fetch(`${this.dataset.url}&offset=${this.next}`, { headers, credentials: "same-origin" });
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    const found = await answer.json();
    const isFirst = this.count === 0 && found.logs.length > 0;
    if (isFirst) this.place?.replaceChildren();
    this.append_(found.logs);
    const isMore = found.nextOffset > this.next;
    this.next = found.nextOffset;
    this.isOver = found.isComplete;
    const state = this.isOver ? "" : ", and goes on";
    this.tell(`${this.count.toLocaleString()} lines${state}${this.count >= MOST_LINES ? ": the first are shown" : ""}`);
    if (isFirst && this.dataset.line) this.toLine(this.dataset.line);
    else if (found.logs.length && (this.isFollowing || isFirst)) this.toEnd();
    return isMore;
  }

  /** @param {Record<string, unknown>[]} lines */
  append_(lines) {
    for (const each of lines.slice(0, MOST_LINES - this.count)) {
      this.count += 1;
      let block = this.place?.lastElementChild;
      if (!block || block.childElementCount >= LINES_A_BLOCK) {
        block = document.createElement("div");
        block.className = "log-block";
        this.place?.append(block);
      }
      block.append(line(this.count, each));
    }
  }

  toEnd() {
    if (this.place) this.place.scrollTop = this.place.scrollHeight;
  }

  /** @param {string} range such as `12` or `12-40` */
  toLine(range) {
    const [from, to] = range.split("-").map(Number);
    for (let at = from ?? 0; at <= (to ?? from ?? 0) && at < (from ?? 0) + 5000; at += 1) {
      this.querySelector(`#L${at}`)?.classList.add("marked");
    }
    this.querySelector(`#L${from}`)?.scrollIntoView({ block: "center" });
  }

  /** @param {string} words */
  tell(words) {
    const place = this.querySelector(".told");
    if (place) place.textContent = words;
  }
}

/** @param {string} words @param {boolean} isOn @param {(on: boolean) => void} act */
function check(words, isOn, act) {
  const label = document.createElement("label");
  const box = Object.assign(document.createElement("input"), { type: "checkbox", checked: isOn });
  box.addEventListener("change", () => act(box.checked));
  label.append(box, ` ${words}`);
  return label;
}

customElements.define("pw-log", Log);
