// Ctrl K: finds screens, runs, pipelines and tasks by name or id.

/** @typedef {{kind: string, name: string, href: string}} Hit */

export function open() {
  if (document.getElementById("palette")) return;
  const dialog = Object.assign(document.createElement("dialog"), { id: "palette" });
  dialog.setAttribute("aria-label", "Search");
  const input = Object.assign(document.createElement("input"), { type: "search", placeholder: "A screen, a pipeline, a task, an id" });
  input.setAttribute("role", "combobox");
  input.setAttribute("aria-expanded", "true");
  input.setAttribute("aria-controls", "palette-hits");
  input.setAttribute("aria-label", "Search");
  const list = Object.assign(document.createElement("ul"), { id: "palette-hits" });
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", "Found");
  dialog.append(input, list);
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  let asked = 0;
  input.addEventListener("input", async () => {
    const mine = ++asked;
    const found = await hits(input.value.trim());
    if (mine === asked) show(list, found, input);
  });
  input.addEventListener("keydown", (event) => step(event, list, input));
  document.body.append(dialog);
  dialog.showModal();
  show(list, screens(""), input);
}

/** @param {string} text @returns {Hit[]} */
function screens(text) {
  return [...document.querySelectorAll("nav[aria-label='Screens'] a")]
    .map((each) => ({ kind: "screen", name: each.textContent ?? "", href: each.getAttribute("href") ?? "" }))
    .filter((each) => each.name.toLowerCase().includes(text.toLowerCase()));
}

/** @param {string} text @returns {Promise<Hit[]>} */
async function hits(text) {
  const own = screens(text);
  if (!text) return own;
  const { tenant = "", root = "" } = document.body.dataset;
  const answer = await fetch(`/api/search?q=${encodeURIComponent(text)}`, { headers: { "X-Tenant": tenant } });
  if (!answer.ok) return own;
  /** @type {{hits: {kind: string, id: string, name: string | null, status: string | null}[]}} */
  const found = await answer.json();
  return [...own, ...found.hits.map((each) => hit(each, root))];
}

/** Kind of a thing -> its words, and the screen that shows it. @type {Record<string, [string, string]>} */
const PLACES = {
  run: ["run", "/runs/"],
  taskRun: ["task run", "/task-runs/"],
  deadLetter: ["dead letter", "/dead-letters/"],
  redrive: ["redrive", "/redrives/"],
  pipeline: ["pipeline", "/pipelines/"],
  task: ["task", "/tasks/"],
  schedule: ["schedule", "/schedules#"],
  trigger: ["trigger", "/triggers#"],
  service: ["service", "/workers?service="],
};

/** @param {{kind: string, id: string, name: string | null, status: string | null}} found @param {string} root */
function hit(found, root) {
  const [kind, path] = PLACES[found.kind] ?? [found.kind, "/"];
  const name = [found.id, found.status, found.name].filter(Boolean).join(" · ");
  return { kind, name, href: `${root}${path}${encodeURIComponent(found.id)}` };
}

/** @param {Element} list @param {Hit[]} found @param {HTMLInputElement} input */
function show(list, found, input) {
  list.replaceChildren(
    ...found.slice(0, 20).map((each, index) => {
      const item = document.createElement("li");
      const link = Object.assign(document.createElement("a"), { href: each.href, id: `palette-${index}`, tabIndex: -1 });
      link.setAttribute("role", "option");
      link.setAttribute("aria-selected", String(index === 0));
      const kind = document.createElement("span");
      kind.className = "kind";
      kind.textContent = each.kind;
      const name = document.createElement("span");
      name.textContent = each.name;
      link.append(kind, name);
      item.setAttribute("role", "none");
      item.append(link);
      return item;
    }),
  );
  input.setAttribute("aria-activedescendant", found.length ? "palette-0" : "");
}

/** @param {KeyboardEvent} event @param {Element} list @param {HTMLInputElement} input */
function step(event, list, input) {
  const links = [...list.querySelectorAll("a")];
  const at = links.findIndex((each) => each.getAttribute("aria-selected") === "true");
  if (event.key === "Enter") {
    links[at]?.click();
  } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    const next = Math.min(links.length - 1, Math.max(0, at + (event.key === "ArrowDown" ? 1 : -1)));
    links.forEach((each, index) => each.setAttribute("aria-selected", String(index === next)));
    links[next]?.scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", `palette-${next}`);
  } else return;
  event.preventDefault();
}
