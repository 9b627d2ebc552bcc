// A table of any length: rows come in blocks as they are scrolled to, those out of sight are only room.

import { Cleanup } from "../../core/afm";
import { nameLink } from "../../core/cut";
import { element, everyFrame, textButton } from "../../core/dom";

const ROW = 30; // px, as core/style.css has it
const BLOCK = 200; // rows asked for at a time
const AROUND = 10; // rows drawn beyond what is in sight

export interface LongColumn<R> {
  title: string;
  /** What the server sorts by; none is not sorted. */
  sort?: string;
  style?: string;
  cell: (row: R) => string;
}

export interface LongTable {
  root: HTMLElement;
  /** Asks for everything anew, from the top. */
  restart(): void;
  dispose(): void;
}

/**
 * The order at first is `sort`. `ask` returns a block of rows from `start` and how many there are in all, in an order such as `name`, or `-name`
 * downwards. `choose` is told which row is clicked, or reached by an arrow key.
 */
export function longTable<R extends { name: string }>(
  label: string, columns: readonly LongColumn<R>[], sort: string, ask: (start: number, n: number, sort: string) => Promise<{ rows: R[]; found: number }>,
  choose: (row: R) => void, failed: (error: unknown) => void,
): LongTable {
  const cleanup = new Cleanup();
  let rows: (R | undefined)[] = [];
  let asked = new Set<number>();
  let round = 0; // answers to what was asked before a restart are late
  let chosen = "";
  let focused = -1;
  const body = element("tbody");
  const heads = columns.map(({ title, sort: key, style }) => {
    const by = (): void => {
      sort = sort === key ? `-${key}` : sort === `-${key}` ? "" : key!;
      restart();
    };
    return element("th", { scope: "col", class: style }, key ? textButton("gw-sort", title, by) : title);
  });
  const table = element("table", { class: "gw-table gw-long", "aria-label": label }, element("thead", {}, element("tr", {}, ...heads)), body);
  const root = element("div", { class: "gw-table-scroll" }, table);
  const frame = everyFrame(draw, body);

  function restart(): void {
    rows = [];
    asked = new Set();
    round++;
    root.scrollTop = 0;
    heads.forEach((head, k) => {
      const { sort: key } = columns[k];
      if (key) head.setAttribute("aria-sort", sort === key ? "ascending" : sort === `-${key}` ? "descending" : "none");
    });
    void need(0);
  }

  async function need(block: number): Promise<void> {
    if (asked.has(block)) return;
    asked.add(block);
    const now = round;
    try {
      const { rows: got, found } = await ask(block * BLOCK, BLOCK, sort);
      if (now !== round) return;
      rows.length = found;
      got.forEach((row, k) => (rows[block * BLOCK + k] = row));
      table.setAttribute("aria-rowcount", String(found + 1));
      frame.request();
    } catch (error) {
      if (now === round) failed(error);
    }
  }

  function draw(): void {
    const first = Math.max(0, Math.floor(root.scrollTop / ROW) - AROUND);
    const last = Math.min(rows.length, Math.ceil((root.scrollTop + root.clientHeight) / ROW) + AROUND);
    for (let block = Math.floor(first / BLOCK); block * BLOCK < last; block++) void need(block);
    const held = body.contains(root.ownerDocument.activeElement);
    const made = Array.from({ length: Math.max(0, last - first) }, (_, k) => line(first + k));
    body.replaceChildren(room(first), ...made, room(rows.length - last));
    if (held) body.querySelector<HTMLElement>(`[data-at="${focused}"] .gw-link`)?.focus({ preventScroll: true });
  }

  function room(count: number): HTMLElement {
    return element("tr", { "aria-hidden": "true", class: "gw-room" }, element("td", { colspan: columns.length, style: `height: ${Math.max(0, count) * ROW}px` }));
  }

  function line(at: number): HTMLElement {
    const row = rows[at];
    const cells = columns.map(({ cell, style }, k) => {
      const text = row ? cell(row) : "…";
      const content = k === 0 && row ? nameLink(text, () => go(at), row.name) : text;
      return element("td", { class: style }, content);
    });
    const node = element("tr", { "aria-rowindex": at + 2, "data-at": at, class: row?.name === chosen ? "gw-selected" : undefined }, ...cells);
    if (row) node.addEventListener("click", () => go(at));
    return node;
  }

  function go(at: number): void {
    const row = rows[at];
    if (!row) return;
    focused = at;
    if (row.name !== chosen) {
      chosen = row.name;
      choose(row);
    }
    const top = at * ROW;
    const high = root.clientHeight - 2 * ROW; // the head stays above
    if (top < root.scrollTop) root.scrollTop = top;
    else if (top > root.scrollTop + high) root.scrollTop = top - high;
    draw();
    body.querySelector<HTMLElement>(`[data-at="${at}"] .gw-link`)?.focus({ preventScroll: true });
  }

  cleanup.dom(root, "keydown", (event) => {
    const at = (event.target as HTMLElement).closest<HTMLElement>("[data-at]")?.dataset.at;
    const to = { ArrowDown: Number(at) + 1, ArrowUp: Number(at) - 1, Home: 0, End: rows.length - 1 }[event.key];
    if (at === undefined || to === undefined || to < 0 || to >= rows.length) return;
    go(to);
    event.preventDefault();
    event.stopPropagation();
  });
  root.addEventListener("scroll", frame.request, { passive: true });
  const observer = new ResizeObserver(frame.request);
  observer.observe(root);
  cleanup.add(() => {
    observer.disconnect();
    frame.cancel();
    round++;
  });
  restart();
  return { root, restart, dispose: () => cleanup.run() };
}
