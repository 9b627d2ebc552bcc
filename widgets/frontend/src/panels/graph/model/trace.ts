// Which nodes feed a node, which it feeds, and what lies between two: walks over the graph itself, whatever is drawn.

import type { GraphModel } from "./model";

export const PATHS = ["none", "upstream", "downstream", "both"] as const;
export type Paths = (typeof PATHS)[number];

/** What stands out while all else is dimmed: a flag per item, and the pieces of line between them. */
export interface Focus {
  items: Uint8Array;
  pieces: Set<number>;
}

/** The nodes of an item: itself, or all that a scope holds. */
export function membersOf(model: GraphModel, item: number): number[] {
  const nodes: number[] = [];
  const pending = [item];
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    if (next < model.n) nodes.push(next);
    else {
      const scope = model.scopes[next - model.n];
      for (const node of scope.nodes) nodes.push(node);
      for (const inner of scope.scopes) pending.push(model.n + inner);
      for (const twin of scope.twins) pending.push(model.n + twin);
    }
  }
  return nodes;
}

/** What enters an item that is a node, opened or not: one tensor for each argument, in their order. */
export function argumentsOf(model: GraphModel, item: number): { tensor: number; position: number }[] {
  const { firstInput, edgeTensor, edgePosition, nodeOf, scopeOf, scopes, n } = model;
  if (item < n) return Array.from({ length: firstInput[item + 1] - firstInput[item] }, (_, k) => ({ tensor: edgeTensor[firstInput[item] + k], position: edgePosition[firstInput[item] + k] }));
  const isInside = (node: number): boolean => {
    let s = scopeOf[node];
    while (s > 0 && s !== item - n) s = scopes[s].parent;
    return s > 0;
  };
  const found = new Map<number, number>();
  for (const node of membersOf(model, item)) {
    for (let e = firstInput[node]; e < firstInput[node + 1]; e++) if (!isInside(nodeOf[edgeTensor[e]])) found.set(edgePosition[e], edgeTensor[e]);
  }
  return [...found].sort((a, b) => a[0] - b[0]).map(([position, tensor]) => ({ tensor, position }));
}

/** The nodes that an item reads which is a node, opened or not, in the order of its arguments and once each. */
export function sourcesOf(model: GraphModel, item: number): number[] {
  return [...new Set(argumentsOf(model, item).map(({ tensor }) => model.nodeOf[tensor]))];
}

/** The nodes that a node reads, in the order of its arguments and once each. */
export function inputsOf(model: GraphModel, node: number): number[] {
  const found = new Set<number>();
  for (let e = model.firstInput[node]; e < model.firstInput[node + 1]; e++) found.add(model.nodeOf[model.edgeTensor[e]]);
  return [...found];
}

/** The nodes that read a node, in the order of their creation. */
export function outputsOf(model: GraphModel, node: number): number[] {
  const found = new Set<number>();
  for (let t = model.firstTensor[node]; t < model.firstTensor[node + 1]; t++) {
    for (let c = model.firstConsumer[t]; c < model.firstConsumer[t + 1]; c++) found.add(model.edgeTarget[model.consumers[c]]);
  }
  return [...found].sort((a, b) => a - b);
}

/** A flag per node: the seeds and all that feeds them, or all that they feed, as far as `enters` lets the walk go. */
export function reach(model: GraphModel, seeds: Iterable<number>, upstream: boolean, enters: (node: number) => boolean = () => true): Uint8Array {
  const found = new Uint8Array(model.n);
  const pending: number[] = [];
  const visit = (node: number): void => {
    if (found[node]) return;
    found[node] = 1;
    pending.push(node);
  };
  for (const seed of seeds) visit(seed);
  for (let node = pending.pop(); node !== undefined; node = pending.pop()) {
    for (const next of upstream ? inputsOf(model, node) : outputsOf(model, node)) if (enters(next)) visit(next);
  }
  return found;
}

/** The nodes on all paths from one item to the other, whichever way they lead; none if there is no path. */
export function between(model: GraphModel, a: number, b: number): Uint8Array {
  const [from, to] = [membersOf(model, a), membersOf(model, b)];
  for (const [start, end] of [[from, to], [to, from]]) {
    const found = reach(model, start, false);
    if (!end.some((node) => found[node])) continue;
    const back = reach(model, end, true);
    return found.map((flag, node) => flag & back[node]);
  }
  return new Uint8Array(model.n);
}

/** A flag per item: the flagged nodes, and every scope that holds one. */
export function withScopes(model: GraphModel, nodes: Uint8Array): Uint8Array {
  const items = new Uint8Array(model.n + model.scopes.length);
  items.set(nodes);
  for (let node = 0; node < model.n; node++) {
    if (!nodes[node]) continue;
    for (let s = model.scopeOf[node]; s > 0 && !items[model.n + s]; s = model.scopes[s].parent) items[model.n + s] = 1;
  }
  return items;
}

/**
 * All that inherits a wrong gradient: gradients run against the edges, so it is everything that feeds the blamed
 * nodes through floating-point results.
 */
export function inheritors(model: GraphModel, blamed: readonly number[]): Uint8Array {
  const carries = (node: number): boolean => model.kindOf(node) !== "constant" && model.outputSpecs(node).some((spec) => /^(f|bf|c)\d/.test(spec));
  const found = reach(model, blamed, true, carries);
  for (const node of blamed) found[node] = 0;
  return found;
}

/** The tensors that a node makes, or that leave a scope for other nodes of its layer. */
export function resultsOf(model: GraphModel, item: number): number[] {
  const { n, scopes, scopeOf, layer, firstTensor, firstConsumer, consumers, edgeTarget } = model;
  const node = model.nodeAt(item);
  if (node >= 0) return Array.from({ length: firstTensor[node + 1] - firstTensor[node] }, (_, k) => firstTensor[node] + k);
  const inside = new Map<number, boolean>([[item - n, true], [0, false]]);
  const within = (scope: number): boolean => {
    const chain: number[] = [];
    let s = scope;
    for (; !inside.has(s); s = scopes[s].parent) chain.push(s);
    for (const link of chain) inside.set(link, inside.get(s)!);
    return inside.get(s)!;
  };
  const results: number[] = [];
  const pending = [item - n];
  for (let scope = pending.pop(); scope !== undefined; scope = pending.pop()) {
    pending.push(...scopes[scope].scopes);
    for (const node of scopes[scope].nodes) {
      for (let t = firstTensor[node]; t < firstTensor[node + 1]; t++) {
        const readers = consumers.subarray(firstConsumer[t], firstConsumer[t + 1]);
        if (readers.some((e) => layer[edgeTarget[e]] === layer[node] && !within(scopeOf[edgeTarget[e]]))) results.push(t);
      }
    }
  }
  return results;
}
