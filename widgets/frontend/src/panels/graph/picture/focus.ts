// What stands out in the drawing, in this order: what was searched for, the clicked line, a path between two items,
// the path of a gradient that is explained, what leads into or out of the selection.

import type { Drawing } from "./drawing";
import type { GraphModel } from "../model/model";
import { linesOf } from "../layout/scene";
import { between, membersOf, reach, withScopes, type Focus, type Paths } from "../model/trace";

export interface Wanted {
  found: readonly number[] | undefined;
  line: number;
  selected: number;
  /** The other end of a path, or -1. */
  other: number;
  /** The way that a gradient comes back, if one is explained. */
  path?: Focus;
  paths: Paths;
}

/** `focus` dims all else; `lit` are lines that only catch the eye. */
export function focusOf(graph: GraphModel, drawing: Drawing, { found, line, selected, other, path, paths }: Wanted): { focus?: Focus; lit: Set<number> } {
  const none = new Set<number>();
  if (found) {
    const items = new Uint8Array(graph.n + graph.scopes.length);
    for (const item of found) {
      const shown = drawing.standIn(item);
      if (shown >= 0) items[shown] = 1;
    }
    return { focus: { items, pieces: none }, lit: none };
  }
  if (line >= 0) return { lit: drawing.wires.route(line).pieces };
  if (selected < 0 || other < 0) {
    if (path) return { focus: path, lit: selected < 0 ? none : linesOf(drawing.scene, selected) };
    if (selected < 0) return { lit: none };
  }
  if (other >= 0) {
    const focus = drawing.wires.focus(withScopes(graph, between(graph, selected, other)));
    for (const item of [selected, other]) focus.items[item] = 1;
    return { focus, lit: none };
  }
  if (paths === "none") return { lit: linesOf(drawing.scene, selected) };
  const focus: Focus = { items: new Uint8Array(graph.n + graph.scopes.length), pieces: new Set() };
  // One way after the other: a line that leads past the selection, from one side to the other, is on neither.
  for (const upstream of [true, false]) {
    if (paths !== "both" && upstream !== (paths === "upstream")) continue;
    const part = drawing.wires.focus(withScopes(graph, reach(graph, membersOf(graph, selected), upstream)));
    part.items.forEach((flag, item) => (focus.items[item] |= flag));
    for (const piece of part.pieces) focus.pieces.add(piece);
  }
  return { focus, lit: none };
}
