// What a drawing consists of, as arrays that are quick to go over: boxes, junctions, links, and who is near.

/**
 * What the endpoint of a graph answers, with its layout.
 * @typedef {{pipelineId: string, version: number, view: "all" | "pattern", direction: "right" | "down", open: string[], stepCount: number,
 *   width: number, height: number, tasks: string[], steps: {ids: string[], tasks: number[]},
 *   boxes: {keys: string[], tasks: number[], maps: number[], steps: number[][], inside: Record<string, string>, titles: Record<string, string>, x: number[], y: number[]},
 *   box: {width: number, height: number}, frames: {place: string, title: string, x: number, y: number, width: number, height: number}[],
 *   blocks: {box: number, width: number, height: number, rows: number, shown: number}[],
 *   junctions: {x: number[], y: number[], width: number, height: number},
 *   links: {sources: number[], targets: number[], labels: Record<string, string>,
 *     bends: Record<string, number[]>}}} GraphDocument
 */

export class Scene {
  /** @param {GraphDocument} graph @param {string[]} changed ids of the steps whose code has changed */
  constructor(graph, changed = []) {
    const { boxes, junctions, links, steps } = graph;
    this.graph = graph;
    this.changed = new Set(changed);
    this.boxes = boxes.x.length;
    const count = this.boxes + junctions.x.length;
    this.x = Float32Array.from([...boxes.x, ...junctions.x]);
    this.y = Float32Array.from([...boxes.y, ...junctions.y]);
    this.w = new Float32Array(count).fill(graph.box.width).fill(junctions.width, this.boxes);
    this.h = new Float32Array(count).fill(graph.box.height).fill(junctions.height, this.boxes);
    this.maps = new Set(boxes.maps);
    this.blocks = new Map(graph.blocks.map((each) => [each.box, each]));
    for (const each of graph.blocks) {
      this.w[each.box] = each.width;
      this.h[each.box] = each.height;
    }
    this.ordinals = new Map(steps.ids.map((id, at) => [id, at + 1]));
    /** The box of each step, by ordinal. */
    this.boxOf = new Int32Array(steps.ids.length + 1).fill(-1);
    boxes.steps.forEach((ordinals, box) => ordinals.forEach((each) => (this.boxOf[each] = box)));
    this.after = neighbours(count, links.sources, links.targets);
    this.before = neighbours(count, links.targets, links.sources);
    this.isDown = graph.direction === "down";
    // Where links leave a box, and where they enter it: its right and left, or its foot and head.
    const [out, into] = this.isDown ? [[0.5, 1], [0.5, 0]] : [[1, 0.5], [0, 0.5]];
    const at = (/** @type {number} */ each, /** @type {number[]} */ [right, low]) => [this.x[each] + this.w[each] * right, this.y[each] + this.h[each] * low];
    /** The points of each link. */
    this.links = links.sources.map((source, link) => Float32Array.from(
      [...at(source, out), ...(links.bends[link] ?? []), ...at(links.targets[link], into)]));
    /** Paths of all links, by what draws them; see links.js. @type {Map<unknown, Path2D[]>} */
    this.paths = new Map();
  }

  /** The ordinals of a box's steps; none in a frame. @param {number} box */
  steps(box) {
    return this.graph.boxes.steps[box];
  }

  /** The id of a step. @param {number} ordinal */
  id(ordinal) {
    return this.graph.steps.ids[ordinal - 1];
  }

  /** @param {number} box */
  task(box) {
    return this.graph.tasks[this.graph.boxes.tasks[box]].replace(/^pipeweave:/, "");
  }

  /** What the engine decides in place of a task: `choice`, `sleep`; else empty. @param {number} box */
  engine(box) {
    return this.graph.tasks[this.graph.boxes.tasks[box]].startsWith("pipeweave:") ? this.task(box) : "";
  }

  /** @param {number} box */
  isClass(box) {
    return this.steps(box).length > 1;
  }

  /** What people read on a box. @param {number} box */
  title(box) {
    return this.graph.boxes.titles[box] ?? (this.isClass(box) ? this.task(box) : this.id(this.steps(box)[0]));
  }

  /** How many steps a class has, for behind its title. @param {number} box */
  times(box) {
    return this.isClass(box) ? ` ×${this.steps(box).length.toLocaleString("en")}` : "";
  }

  /** The box at a point; -1: none. @param {number} x @param {number} y */
  boxAt(x, y) {
    return this.boxesIn(x, y, x, y).at(-1) ?? -1;
  }

  /** The boxes that a rectangle touches: faster than an index of them. @param {number} left @param {number} top @param {number} right @param {number} bottom */
  boxesIn(left, top, right, bottom) {
    const { x, y, w, h } = this, found = [];
    for (let box = 0; box < this.boxes; box++) {
      if (x[box] <= right && x[box] + w[box] >= left && y[box] <= bottom && y[box] + h[box] >= top) found.push(box);
    }
    return found;
  }

  /** The links that may touch a rectangle. @param {number} left @param {number} top @param {number} right @param {number} bottom */
  linksIn(left, top, right, bottom) {
    const { width, height } = this.graph;
    if (left <= 0 && top <= 0 && right >= width && bottom >= height) return [...this.links.keys()];
    // Along the way that links go, their ends tell where they are; across it, all their points.
    const along = Number(this.isDown), found = [];
    const [first, last, least, most] = this.isDown ? [top, bottom, left, right] : [left, right, top, bottom];
    for (let at = 0; at < this.links.length; at++) {
      const line = this.links[at];
      if (line[along] > last || line[line.length - 2 + along] < first) continue;
      let low = line[1 - along], high = low;
      for (let each = 3 - along; each < line.length; each += 2) {
        if (line[each] < low) low = line[each];
        else if (line[each] > high) high = line[each];
      }
      if (low <= most && high >= least) found.push(at);
    }
    return found;
  }

  /** The boxes next to one, across junctions. @param {number} box @param {number[][]} side */
  beside(box, side) {
    return side[box].flatMap((each) => (each < this.boxes ? [each] : side[each]));
  }

  /** All elements that can be reached, and itself. @param {number} box @param {number[][]} side */
  reach(box, side) {
    const found = new Set([box]);
    for (const each of found) for (const next of side[each]) found.add(next);
    return found;
  }
}

/** @param {number} count @param {number[]} from @param {number[]} to @returns {number[][]} */
function neighbours(count, from, to) {
  /** @type {number[][]} */
  const found = Array.from({ length: count }, () => []);
  from.forEach((each, at) => found[each].push(to[at]));
  return found;
}
