// What a file says of itself: facts in a line each, and tables.

import { element } from "../../core/dom";
import type { About } from "./page";
import type { Inspected, TableOf } from "./served";

export function fillAbout(host: HTMLElement, { words }: About, told: Inspected): () => void {
  const rows = [[words("format"), told.title], ...told.facts.filter(([, text]) => text)];
  const facts = element("dl", { class: "gw-facts" }, ...rows.flatMap(([key, text]) => [element("dt", {}, key), element("dd", {}, text)]));
  host.append(element("div", { class: "gw-about", tabindex: 0, role: "region", "aria-label": words("About") }, facts, ...told.tables.filter((t) => t.rows.length).map(table)));
  return () => undefined;
}

export function table({ title, columns, rows, notes }: TableOf): HTMLElement {
  return element("section", { class: "gw-about-table", "aria-label": title },
    element("h3", {}, title),
    element("table", { class: "gw-table" },
      element("thead", {}, element("tr", {}, ...columns.map((text) => element("th", { scope: "col" }, text)))),
      element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map((text) => element("td", {}, text)))))),
    ...notes.map((note) => element("div", { class: "gw-table-note" }, note)));
}
