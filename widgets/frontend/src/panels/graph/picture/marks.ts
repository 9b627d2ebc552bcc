// What other panels point at: the node that runs next, breakpoints, and the nodes that a check has found at fault.

import type { GraphModel } from "../model/model";
import { anywhere } from "../model/names";
import { inheritors, membersOf, withScopes, type Focus } from "../model/trace";
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

/** The item of an address, or of what is around it as far as nodes are opened: `norm` for `norm::mean`. */
export function itemAround(model: GraphModel, address: string): number {
  for (let path = anywhere(address); path; path = path.slice(0, Math.max(0, path.lastIndexOf(":", Math.max(0, path.lastIndexOf(":") - 1))))) {
    const item = model.itemOf(path);
    if (item >= 0) return item;
  }
  return -1;
}

/** Variables that training leaves alone, and the cards that hold them. */
export function frozenOf(model: GraphModel, names: readonly string[]): Set<number> {
  const { n, scopes, scopeOf } = model;
  const nodes = names.map((name) => model.node(name)).filter((node) => node >= 0);
  return new Set([...nodes, ...nodes.map((node) => scopeOf[node]).filter((s) => scopes[s].kind === "card").map((s) => n + s)]);
}

/** What stands for an item in a drawing: itself, or the closed scope around it; -1 if neither is drawn. */
export function drawnFor(model: GraphModel, isDrawn: (item: number) => boolean, item: number): number {
  if (item < 0 || isDrawn(item)) return item;
  const around = item < model.n ? model.scopeOf[item] : model.scopes[item - model.n].parent;
  for (let s = around; s > 0; s = model.scopes[s].parent) if (isDrawn(model.n + s)) return model.n + s;
  return -1;
}

export function marksOf(model: GraphModel, wires: Wires, isDrawn: (item: number) => boolean, { current, stops, blamed }: Marked): Marks {
  const drawn = (name: string): number => drawnFor(model, isDrawn, itemAround(model, name));
  const found = (names: readonly string[]): Set<number> => new Set(names.map(drawn).filter((item) => item >= 0));
  const faults = found(blamed);
  for (const item of [...faults]) if (model.twinOf(item) >= 0) faults.add(model.twinOf(item));
  const guilty = blamed.map((name) => itemAround(model, name)).filter((item) => item >= 0).flatMap((item) => membersOf(model, item));
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
