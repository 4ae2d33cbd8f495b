// What a pointer does on a graph, what is asked of the server, and what the page's address says.
import { look } from "../live.js";
import { membersOf } from "./boxes.js";
import { gestures } from "./camera.js";
import { speak } from "./keys.js";

/** @typedef {import("./element.js").PwGraph} Graph */

/** @param {Graph} graph @param {HTMLElement} map */
export function pointing(graph, map) {
  const { camera, stage } = graph;
  if (!stage) return;
  gestures(stage, camera, (x, y, isWide) => tapped(graph, ...camera.at(x, y), isWide), (x, y) => {
    const box = graph.scene?.boxAt(...camera.at(x, y)) ?? -1;
    if (box === graph.marked.hover) return;
    graph.marked.hover = box;
    stage.title = box < 0 ? "" : speak(graph.look(), box, 0);
    graph.draw();
  });
  map.addEventListener("pointerdown", (event) => {
    event.stopPropagation();
    const wide = camera.width / camera.zoom, high = camera.height / camera.zoom;
    camera.show(event.offsetX / graph.scale - wide / 2, event.offsetY / graph.scale - high / 2, wide, high, camera.zoom);
  });
}

/** Select what lies at this point; a selected class opens. @param {Graph} graph @param {number} left @param {number} top @param {boolean} isWide */
function tapped(graph, left, top, isWide) {
  const { scene, marked } = graph, box = scene?.boxAt(left, top) ?? -1;
  if (!scene || box < 0) return graph.select("");
  const member = membersOf(graph.look(), box)
    .find(({ x, y, w, h }) => left >= x && left <= x + w && top >= y && top <= y + h);
  if (box === marked.box && !member && (scene.isClass(box) || scene.graph.boxes.inside[box])) return graph.toggle(box);
  return graph.select(scene.id(member?.ordinal ?? scene.steps(box)[0]), { isWide });
}

/** The answer of the server; null: it has none. @param {Graph} graph @param {string} address */
export async function asked(graph, address) {
  const { tenant } = document.body.dataset;
  const headers = tenant ? { "X-Tenant": tenant } : undefined;
  const answer = address ? await fetch(address, { headers, signal: graph.life.signal }).catch(() => null) : null;
  return answer?.ok ? answer : null;
}

/** @param {Graph} graph @param {string} address */
export async function fetched(graph, address) {
  return (await asked(graph, address))?.json() ?? null;
}

/** Put it into the page's address, and have the page look at that. @param {Record<string, unknown>} detail */
export function remember(detail) {
  const url = new URL(location.href);
  for (const [key, value] of Object.entries(detail)) {
    if (value) url.searchParams.set(key, String(value));
    else url.searchParams.delete(key);
  }
  history.replaceState(history.state, "", url);
  void look().catch(() => undefined);
}
