// The way that a gradient comes back from the loss, as it is lit in a drawing.

import { drawnFor, itemAround } from "./marks";
import type { GraphModel } from "../model/model";
import type { Overlay } from "./overlay";
import type { Scene } from "../layout/scene";
import { inputsOf, outputsOf, withScopes, type Focus } from "../model/trace";
import type { Wires } from "./wires";

/** What the kernel says; empty where nobody has asked, and only `busy` while it looks. */
export interface Why {
  busy?: string;
  parameter: string;
  loss: string;
  verdict: string;
  /** Sentences; the first says it all. */
  text: string[];
  causes: { kind: string; text: string; nodes: string[] }[];
  /** From the loss to the parameter, by address. */
  nodes: string[];
  culprits: string[];
}

export const DEAD = -1;

/** A path that is lit. */
export interface Path {
  focus: Focus;
  /** The items at fault. */
  culprits: Set<number>;
  /** Width of each piece of line by the norm of the gradient that comes back through it, 0 to 1; `DEAD` where it is 0. */
  widths: Map<number, number>;
}

/** What a drawing has of a graph. */
interface Drawn {
  scene: Scene;
  wires: Wires;
  isDrawn(item: number): boolean;
}

/** The items and lines that a gradient comes back through, as far as they are drawn. */
export function pathOf(graph: GraphModel, { scene, wires, isDrawn }: Drawn, { nodes, culprits }: Partial<Why>, overlay: Overlay | undefined): Path | undefined {
  if (!nodes?.length) return undefined;
  const drawn = (name: string): number => drawnFor(graph, isDrawn, itemAround(graph, name));
  const flags = new Uint8Array(graph.n + graph.scopes.length);
  for (const name of nodes) {
    const item = drawn(name);
    if (item >= 0) flags[item] = 1;
  }
  joinInsides(graph, flags);
  const focus = { items: flags, pieces: wires.among(flags) };
  const inside = withScopes(graph, flags.subarray(0, graph.n));
  inside.forEach((flag, item) => (flags[item] ||= flag)); // frames and scopes around the path
  const widths = new Map<number, number>();
  for (const piece of focus.pieces) {
    const value = overlay ? valueAt(graph, overlay, graph.nodeOf[scene.pieceTensor[piece]]) : NaN;
    const place = overlay ? overlay.place(value) : NaN;
    widths.set(piece, value === 0 ? DEAD : Number.isNaN(place) ? 0 : place);
  }
  return { focus, widths, culprits: new Set((culprits ?? []).map(drawn).filter((item) => item >= 0)) };
}

/** The value of a node; an input of an opened node has that of what comes in. */
function valueAt(graph: GraphModel, { values }: Overlay, node: number): number {
  const own = values[graph.frameOf(node)];
  if (!Number.isNaN(own) || graph.holder[node] < 0) return own;
  return inputsOf(graph, node).map((source) => values[graph.frameOf(source)]).find((value) => !Number.isNaN(value)) ?? NaN;
}

/**
 * A path leads into an opened node through one of its inputs, and out of it through what makes its results. Where it
 * does not say which way it takes inside, it takes all.
 */
function joinInsides(graph: GraphModel, flags: Uint8Array): void {
  const { n, holder } = graph;
  const known = new Set<number>(); // opened nodes with a way inside
  for (let node = 0; node < n; node++) {
    if (!flags[graph.frameOf(node)] || holder[node] < 0) continue;
    for (let h = holder[node]; h >= 0; h = holder[h]) {
      known.add(h);
      flags[graph.frameOf(h)] = 1;
    }
  }
  for (let node = n - 1; node >= 0; node--) { // what is inside comes before its node
    if (graph.isOpened(node) && flags[graph.frameOf(node)]) flags[node] = 1;
    if (holder[node] >= 0 && flags[holder[node]] && !known.has(holder[node])) flags[node] = flags[graph.frameOf(node)] = 1;
  }
  const isInput = (node: number): boolean => holder[node] >= 0 && graph.kindOf(node) === "placeholder";
  const isOn = (node: number): boolean => flags[graph.frameOf(node)] === 1 || (isInput(node) && flags[holder[node]] === 1);
  for (let node = 0; node < n; node++) {
    if (isInput(node) && flags[holder[node]] && inputsOf(graph, node).some(isOn) && outputsOf(graph, node).some(isOn)) flags[node] = 1;
  }
}
