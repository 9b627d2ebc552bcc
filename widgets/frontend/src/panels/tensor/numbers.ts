// The exact numbers of a small slice in a table, coloured by value.

import { element } from "../../core/dom";
import { BAD_COLORS, type Scale } from "./colors";
import { digits, fullIndex, GOOD, type Part, type Place, type TensorFacts } from "./picture";

const ROWS = 64;
const COLUMNS = 32;

/** Fills `host` with the numbers of one tile: that of the cursor, else the first. */
export function numberTable(host: HTMLElement, facts: TensorFacts, part: Part, scale: Scale | undefined, cursor: Place | undefined, pick: (place: Place) => void): void {
  if (part.reduced) {
    host.replaceChildren(element("p", { class: "gw-tensor-say" }, "This slice has too many values for a table. Narrow it, as in [:64, :32], or zoom into the picture first."));
    return;
  }
  const [, , , , top, bottom, left, right] = part.facts.window;
  const tile = cursor && part.tiles.includes(cursor.tile) ? cursor.tile : part.tiles[0];
  const [rows, columns] = [Math.min(ROWS, bottom - top), Math.min(COLUMNS, right - left)];
  const label = (place: Place, axis: number | undefined): string => {
    const at = facts.axes.findIndex(([, , of]) => of === axis);
    return String(at < 0 ? 0 : fullIndex(facts, place)[at]);
  };
  const [rowAxis, columnAxis] = facts.slice.length === 1 ? [undefined, 0] : facts.plane;
  const head = element("tr", {}, element("th", {}), ...Array.from({ length: columns }, (_, k) => element("th", { scope: "col" }, label({ tile, row: top, column: left + k }, columnAxis))));
  const lines = Array.from({ length: rows }, (_, i) =>
    element("tr", {}, element("th", { scope: "row" }, label({ tile, row: top + i, column: left }, rowAxis)), ...Array.from({ length: columns }, (__, k) => {
      const place = { tile, row: top + i, column: left + k };
      const cell = part.cell(place);
      const value = part.value(cell, false);
      const state = part.state(cell);
      const text = facts.dtype === "bool" ? (value ? "True" : "False") : digits(value, part.facts.type);
      const here = cursor && cursor.tile === tile && cursor.row === place.row && cursor.column === place.column;
      const node = element("td", { class: here ? "gw-tensor-here" : undefined, title: text }, text);
      node.style.background = state !== GOOD ? BAD_COLORS[state] : scale ? scale.css(value) : "";
      node.style.color = state !== GOOD || scale?.isDark(value) ? "#fff" : "#15171c";
      node.addEventListener("click", () => pick(place));
      return node;
    })),
  );
  const notes: string[] = [];
  if (facts.shown > 1) notes.push(`plane ${tile} of ${facts.shown}`);
  if (rows < facts.height || columns < facts.width) notes.push(`${rows} × ${columns} of ${facts.height} × ${facts.width} values`);
  host.replaceChildren(element("table", {}, element("thead", {}, head), element("tbody", {}, ...lines)), element("p", { class: "gw-tensor-say" }, notes.join(" · ")));
}
