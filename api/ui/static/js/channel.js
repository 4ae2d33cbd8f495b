// One stream of announcements for all tabs of a browser: HTTP/1.1 allows six connections to a server, and a
// stream takes one. The visible tab that holds the lock leads: it asks for what all visible tabs watch, and
// tells them what it hears.

const TELL_MS = 5000;
const FORGET_MS = 12_000;
const RETRY_MS = 2000;
const CHECK_MS = 1000;
// A sign of life comes every 3 s. A stream that is silent for longer than two of them is dead, as after the loss
// of a host, whose connections nobody closes.
const SILENT_MS = 8000;

/** @typedef {{views: string[], runs: string[]}} Topics */
/** @typedef {{views?: Record<string, string>, runs?: Record<string, number>}} News */

export class Channel {
  /**
   * @param {string} tenant
   * @param {Topics} topics what this tab watches
   * @param {(news: News) => void} hear
   * @param {(isHeard: boolean) => void} state whether announcements come
   */
  constructor(tenant, topics, hear, state) {
    this.tenant = tenant;
    this.topics = topics;
    this.hear = hear;
    this.state = state;
    this.id = crypto.randomUUID();
    /** @type {Map<string, {topics: Topics, at: number}>} */
    this.tabs = new Map();
    /** @type {AbortController | null} */
    this.stream = null;
    /** @type {(() => void) | null} */
    this.handOver = null;
    this.asked = "";
    this.heardAt = 0;
    /** Ends the pause before the next try. @type {() => void} */
    this.retry = () => undefined;
    this.post = new BroadcastChannel(`pipeweave-live-${tenant}`);
    this.post.onmessage = ({ data }) => this.receive(data);
    document.addEventListener("visibilitychange", () => this.turn());
    setInterval(() => this.tell(), TELL_MS);
    setInterval(() => this.#check(), CHECK_MS);
    this.turn();
  }

  get isVisible() {
    return document.visibilityState === "visible";
  }

  turn() {
    if (!this.isVisible) {
      this.post.postMessage({ leave: this.id });
      this.handOver?.();
      return;
    }
    this.tell();
    if (this.handOver || this.isWaiting) return;
    this.isWaiting = true;
    void navigator.locks.request(`pipeweave-live-${this.tenant}`, () => this.lead());
  }

  /** Lead until this tab is hidden. @returns {Promise<void>} */
  lead() {
    this.isWaiting = false;
    if (!this.isVisible) return Promise.resolve();
    return new Promise((done) => {
      this.handOver = () => {
        this.handOver = null;
        this.stream?.abort();
        this.stream = null;
        this.asked = "";
        done();
      };
      this.post.postMessage({ who: true });
      this.listen();
    });
  }

  tell() {
    if (!this.isVisible) return;
    this.post.postMessage({ tab: this.id, topics: this.topics });
    if (this.handOver) this.listen();
  }

  /** @param {any} data */
  receive(data) {
    if (data.news) this.hear(data.news);
    if (data.state !== undefined) this.state(data.state);
    if (data.who) this.tell();
    if (data.leave) this.tabs.delete(data.leave);
    if (data.tab) this.tabs.set(data.tab, { topics: data.topics, at: Date.now() });
    if (this.handOver && (data.tab || data.leave)) this.listen();
  }

  /** Give up a stream that is silent for too long. */
  #check() {
    if (!this.handOver || performance.now() - this.heardAt < SILENT_MS) return;
    this.spread({ state: false });
    this.asked = "";
    this.listen();
  }

  /** Ask for what all visible tabs watch, unless that is asked for already. */
  listen() {
    for (const [id, tab] of this.tabs) if (Date.now() - tab.at > FORGET_MS) this.tabs.delete(id);
    const all = [this.topics, ...[...this.tabs.values()].map((tab) => tab.topics)];
    const query = new URLSearchParams();
    for (const view of new Set(all.flatMap((each) => each.views).slice(0, 20))) query.append("view", view);
    for (const run of new Set(all.flatMap((each) => each.runs).slice(0, 20))) query.append("run", run);
    const asked = query.toString();
    if (asked === this.asked) return;
    this.asked = asked;
    this.heardAt = performance.now();
    this.stream?.abort();
    this.stream = new AbortController();
    void this.read(asked, this.stream.signal);
  }

  /** @param {string} query @param {AbortSignal} signal */
  async read(query, signal) {
    while (!signal.aborted) {
      try {
        const headers = { "X-Tenant": this.tenant };
        const answer = await fetch(`/api/live?${query}`, { headers, signal, cache: "no-store" });
        this.heardAt = performance.now();
        if (answer.ok && answer.body) await this.follow(answer.body);
      } catch {
        // The server is away, or this tab does not lead any more.
      }
      if (signal.aborted) return;
      this.heardAt = performance.now();
      this.spread({ state: false });
      await new Promise((done) => {
        this.retry = () => done(undefined);
        setTimeout(done, RETRY_MS * (0.75 + Math.random() / 2));
      });
    }
  }

  /** @param {ReadableStream<Uint8Array>} body */
  async follow(body) {
    let text = "";
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      this.heardAt = performance.now();
      const parts = (text + value).split("\n\n");
      text = parts.pop() ?? "";
      this.spread({ state: true });
      for (const part of parts) {
        const data = part.split("\n").find((line) => line.startsWith("data: "))?.slice(6);
        if (data && !part.includes("event: ")) this.spread({ news: JSON.parse(data) });
      }
    }
  }

  /** @param {object} data */
  spread(data) {
    this.post.postMessage(data);
    this.receive(data);
  }
}
