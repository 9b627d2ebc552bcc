// A table of verdicts that can be sorted by every column and filtered to what is in trouble.

import { element, textButton } from "./dom";
import { grouped, natural } from "./format";

const MOST = 300; // rows drawn at once

export interface Row {
  name: string;
  verdict: string;
  /** What is selected when it is, where that is not called like it. */
  lit?: string;
}

export interface Column<R extends Row> {
  title: string;
  style: string;
  cell: (row: R) => Node | string;
  /** What rows are ordered by; larger is worse, and comes first at the first click. */
  order: (row: R) => number | string;
}

export interface RowTable<R extends Row> {
  root: HTMLElement;
  show(rows: readonly R[], onlyTrouble: boolean, selected: string): void;
}

/** Rows in the order of `columns[sorted]`, or as given while nobody has chosen one; `isTrouble` tells what a filter keeps. */
export function rowTable<R extends Row>(
  label: string, columns: readonly Column<R>[], isTrouble: (row: R) => boolean, sorted = -1,
): RowTable<R> {
  let key = sorted;
  let down = true;
  let sought = false;
  let last: Parameters<RowTable<R>["show"]> | undefined;
  const body = element("tbody");
  const heads = columns.map(({ title, style }, k) => {
    const sort = (): void => {
      down = key === k ? !down : true;
      key = k;
      if (last) show(...last);
    };
    return element("th", { scope: "col", class: style }, textButton("gw-sort", title, sort));
  });
  const note = element("div", { class: "gw-table-note", hidden: true });
  const table = element("table", { class: "gw-table", "aria-label": label }, element("thead", {}, element("tr", {}, ...heads)), body);
  const root = element("div", { class: "gw-table-scroll" }, table, note);

  function show(rows: readonly R[], onlyTrouble: boolean, selected: string): void {
    sought ||= selected !== last?.[2];
    last = [rows, onlyTrouble, selected];
    heads.forEach((head, k) => head.setAttribute("aria-sort", k !== key ? "none" : down ? "descending" : "ascending"));
    const order = columns[key]?.order;
    const kept = onlyTrouble ? rows.filter(isTrouble) : [...rows];
    const wanted = !order ? kept : kept.sort((a, b) => {
      const [x, y] = [order(a), order(b)];
      const found = typeof x === "string" ? natural(x, String(y)) : (y as number) - x;
      return down ? found : -found;
    });
    const focused = (body.getRootNode() as ShadowRoot | Document).activeElement;
    const held = body.contains(focused) ? focused!.closest("tr")!.dataset.name : undefined;
    body.replaceChildren(...wanted.slice(0, MOST).map((row) => {
      const cells = columns.map(({ cell, style }) => element("td", { class: style }, cell(row)));
      const made = element("tr", { "data-name": row.name, "data-verdict": row.verdict }, ...cells);
      made.classList.toggle("gw-selected", Boolean(selected) && (row.lit || row.name) === selected);
      if (row.name === held) queueMicrotask(() => made.querySelector("button")?.focus());
      return made;
    }));
    const more = wanted.length - MOST;
    note.textContent =
      more > 0 ? `${grouped(more)} more; sort or filter to see them`
      : wanted.length || !rows.length ? ""
      : "No trouble here.";
    note.hidden = !note.textContent;
    bring();
  }

  /** Scroll to the row that was selected, once there is room; nothing but the table moves. */
  function bring(): void {
    if (!sought || !root.clientHeight) return;
    sought = false;
    const row = body.querySelector(".gw-selected");
    if (!row) return;
    const [at, seen] = [row.getBoundingClientRect(), root.getBoundingClientRect()];
    if (at.top < seen.top || at.bottom > seen.bottom) root.scrollTop += at.top - seen.top - (seen.height - at.height) / 2;
  }
  new ResizeObserver(bring).observe(root);
  return { root, show };
}
