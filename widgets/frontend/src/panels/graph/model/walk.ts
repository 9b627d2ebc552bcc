// Steps along edges from the selected item, as the keys of the drawing take them.

import type { GraphModel } from "./model";
import { outputsOf, sourcesOf } from "./trace";

/** Against an edge, along one, to another end of the edge last taken, or across to the gradient and back. */
export type Way = "in" | "out" | "before" | "after" | "pair";

export class Walk {
  private ends: number[] = [];

  constructor(private readonly graph: GraphModel) {}

  /** Where a step leads from an item, -1 for nowhere. */
  from(item: number, way: Way): number {
    const { graph } = this;
    if (item < 0) return -1;
    if (way === "pair") {
      const beside = graph.pairOf(item);
      return beside >= 0 || item >= graph.n ? beside : graph.origin[item];
    }
    const node = graph.nodeAt(item);
    if (node < 0) return -1;
    if (way === "in" || way === "out") {
      this.ends = way === "in" ? sourcesOf(graph, item) : outputsOf(graph, node);
      return this.ends[0] ?? -1;
    }
    const k = this.ends.indexOf(item);
    return k < 0 ? -1 : this.ends[(k + (way === "after" ? 1 : this.ends.length - 1)) % this.ends.length];
  }
}
