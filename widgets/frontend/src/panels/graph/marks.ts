// What other panels point at: the node that runs next, breakpoints, and the nodes that a check has found at fault.

import type { GraphModel } from "./model";
import { inheritors, withScopes, type Focus } from "./trace";
import type { Wires } from "./wires";

export interface Marks {
  /** The item that runs next or holds it, -1 for none. */
  current: number;
  stops: Set<number>;
  /** With their gradients, which hold the fault. */
  blamed: Set<number>;
  /** What inherits the error of the blamed. */
  tainted: Focus | undefined;
}

/** Names as the panels keep them in their traits. */
export interface Marked {
  current: string;
  stops: readonly string[];
  blamed: readonly string[];
}

/** The node of a name, or the one that holds it: `norm` for `norm/mean` inside of the composite `norm`. */
export function nodeAround(model: GraphModel, name: string): number {
  for (let path = name; path; path = path.slice(0, Math.max(0, path.lastIndexOf("/")))) {
    const node = model.node(path);
    if (node >= 0) return node;
  }
  return -1;
}

/** The item that stands for a node in a drawing: itself, or the closed scope around it; -1 if neither is drawn. */
export function drawnFor(model: GraphModel, isDrawn: (item: number) => boolean, node: number): number {
  if (node < 0 || isDrawn(node)) return node;
  for (let s = model.scopeOf[node]; s > 0; s = model.scopes[s].parent) if (isDrawn(model.n + s)) return model.n + s;
  return -1;
}

export function marksOf(model: GraphModel, wires: Wires, isDrawn: (item: number) => boolean, { current, stops, blamed }: Marked): Marks {
  const drawn = (name: string): number => drawnFor(model, isDrawn, nodeAround(model, name));
  const found = (names: readonly string[]): Set<number> => new Set(names.map(drawn).filter((item) => item >= 0));
  const faults = found(blamed);
  for (const item of [...faults]) if (model.twinOf(item) >= 0) faults.add(model.twinOf(item));
  const guilty = blamed.map((name) => nodeAround(model, name)).filter((node) => node >= 0);
  const flags = guilty.length ? inheritors(model, guilty) : undefined;
  let tainted: Focus | undefined;
  if (flags) {
    const items = withScopes(model, flags);
    const ends = items.slice();
    for (const item of faults) ends[item] = 1;
    items.forEach((flag, item) => {
      if (flag && model.twinOf(item) >= 0) items[model.twinOf(item)] = 1;
    });
    tainted = { items, pieces: wires.among(ends) };
  }
  return { current: drawn(current), stops: found(stops), blamed: faults, tainted };
}
