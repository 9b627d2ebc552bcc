// The graph as the kernel sends it, decoded into columns and indexed by scope.

import { bytes, int32 } from "../../core/buffers";

/** What travels: one column per fact. Numbers are little-endian buffers, text is interned. */
export interface GraphSpec {
  version: 1;
  name: string;
  /** Full node names, `hidden/matmul`, in creation order. */
  names: string[];
  /** Distinct calls, such as `softmax(axis=-1)`, and the op name and category of each. */
  calls: string[];
  ops: string[];
  categories: string[];
  /** Distinct tensor specs, such as `f32[B, 64]`. */
  specs: string[];
  /** i32[nodes]: index into `calls`. */
  call: DataView;
  /** u8[nodes]: index into `KINDS`. */
  kind: DataView;
  /** i32[nodes + 1]: the outputs of node i are the tensors `firstTensor[i] .. firstTensor[i + 1] - 1`. */
  first_tensor: DataView;
  /** i32[tensors]: index into `specs`. */
  spec: DataView;
  /** i32[edges, 3]: tensor, consuming node, argument position; sorted by consumer and position. */
  edges: DataView;
  /** i32[nodes]: the node whose gradient a node belongs to, or -1. */
  origin: DataView;
  /** u8[nodes]: 1 in the derived layer: gradients, updates, the state of an optimizer. */
  derived: DataView;
}

export const KINDS = ["array", "placeholder", "variable", "constant"] as const;
export type Kind = (typeof KINDS)[number];

/** The layer of what is derived without being the gradient of one node, such as an optimizer's update. */
export const UPDATE = -1;

export interface Scope {
  /** `block/attention`; the root scope is the empty path. */
  path: string;
  /** The last part of the path. */
  label: string;
  parent: number;
  depth: number;
  scopes: number[];
  nodes: number[];
  /** Twins that stand in this scope beside the items they belong to (see below). */
  twins: number[];
  /** The item whose gradient this scope holds, or -1. */
  of: number;
  /** Nodes in this scope and below, and the first of them. */
  size: number;
  first: number;
}

/** A scope's own name, or a node's: the part after the last slash. */
export function leaf(name: string): string {
  return name.slice(name.lastIndexOf("/") + 1) || name;
}

/**
 * Drawable things are called items: item `i < n` is node i, item `n + s` is scope s.
 * Scope 0 is the root and is never drawn itself.
 *
 * The gradient of an item is a scope of its own, its twin, whatever the names of the nodes in it. The twin of a node
 * holds the nodes of its gradient, of all gradients that were taken through it; the twin of a scope holds the twins of
 * what is in the scope, and opens and closes with it. Twins stand beside the outermost scopes, so that the whole
 * backward graph runs beside the whole forward graph. Gradient nodes have twins, too, when they are differentiated
 * again: these stand beside them, inside the twin that both belong to.
 */
export class GraphModel {
  readonly n: number;
  readonly call: Int32Array;
  readonly kind: Uint8Array;
  readonly firstTensor: Int32Array;
  readonly specOf: Int32Array;
  readonly nodeOf: Int32Array;
  readonly edgeTensor: Int32Array;
  readonly edgeTarget: Int32Array;
  readonly edgePosition: Int32Array;
  /** The edges into node i are `firstInput[i] .. firstInput[i + 1] - 1`. */
  readonly firstInput: Int32Array;
  /** The edges out of tensor t are `consumers[firstConsumer[t] .. firstConsumer[t + 1] - 1]`. */
  readonly firstConsumer: Int32Array;
  readonly consumers: Int32Array;
  readonly scopes: Scope[];
  readonly scopeOf: Int32Array;
  readonly origin: Int32Array;
  /** 0 of forward nodes, k of a gradient of k-th order, `UPDATE` of what is derived otherwise. */
  readonly layer: Int8Array;
  private readonly twins = new Map<number, number>();
  private readonly byName = new Map<string, number>();
  private readonly byPath = new Map<string, number>();

  constructor(readonly spec: GraphSpec) {
    if (spec.version !== 1) throw new Error(`graph format ${String(spec.version)} is newer than this view (1)`);
    const n = (this.n = spec.names.length);
    this.call = int32(spec.call);
    this.kind = new Uint8Array(bytes(spec.kind));
    this.firstTensor = int32(spec.first_tensor);
    this.specOf = int32(spec.spec);
    const edges = int32(spec.edges);
    const m = edges.length / 3;
    this.edgeTensor = new Int32Array(m);
    this.edgeTarget = new Int32Array(m);
    this.edgePosition = new Int32Array(m);
    for (let e = 0; e < m; e++) {
      this.edgeTensor[e] = edges[3 * e];
      this.edgeTarget[e] = edges[3 * e + 1];
      this.edgePosition[e] = edges[3 * e + 2];
    }
    const tensors = this.firstTensor[n];
    this.nodeOf = new Int32Array(tensors);
    for (let i = 0; i < n; i++) this.nodeOf.fill(i, this.firstTensor[i], this.firstTensor[i + 1]);
    this.firstInput = offsets(this.edgeTarget, n);
    this.firstConsumer = offsets(this.edgeTensor, tensors);
    this.consumers = new Int32Array(m);
    const next = this.firstConsumer.slice();
    for (let e = 0; e < m; e++) this.consumers[next[this.edgeTensor[e]]++] = e;

    this.origin = int32(spec.origin);
    this.layer = layersOf(this.origin, new Uint8Array(bytes(spec.derived)));
    this.scopes = [{ path: "", label: spec.name, parent: -1, depth: 0, scopes: [], nodes: [], twins: [], of: -1, size: n, first: 0 }];
    this.byPath.set("", 0);
    this.scopeOf = new Int32Array(n).fill(-1);
    spec.names.forEach((name, i) => this.byName.set(name, i));
    for (let i = 0; i < n; i++) if (this.layer[i] <= 0) this.put(i, this.ensureScope(pathOf(spec.names[i])));
    for (let order = 1, more = true; more; order++) {
      more = false;
      for (let i = 0; i < n; i++) {
        if (this.layer[i] !== order) continue;
        this.put(i, this.ensureTwin(this.origin[i], pathOf(spec.names[i])));
        more = true;
      }
    }
  }

  private put(node: number, scope: number): void {
    this.scopeOf[node] = scope;
    this.scopes[scope].nodes.push(node);
    for (let s = scope; s > 0; s = this.scopes[s].parent) {
      if (!this.scopes[s].size++) this.scopes[s].first = node;
    }
  }

  private addScope(path: string, label: string, parent: number, depth: number, of: number): number {
    const scope = this.scopes.push({ path, label, parent, depth, scopes: [], nodes: [], twins: [], of, size: 0, first: -1 }) - 1;
    if (!this.byPath.has(path)) this.byPath.set(path, scope);
    return scope;
  }

  /** The twin of a node whose gradient is at `path`, with those of the scopes around it. */
  private ensureTwin(node: number, path: string): number {
    const around = [node]; // from the node outwards, as far as there are no twins yet
    if (this.layer[node] === 0) for (let s = this.scopeOf[node]; s > 0; s = this.scopes[s].parent) around.push(this.n + s);
    let twin = this.layer[node] === 0 ? 0 : this.scopeOf[node];
    const whole = this.spec.names[node];
    for (let item = around.pop(); item !== undefined; item = around.pop()) {
      // Gradients are named after their nodes, so scopes of the kernel have the names of our twins.
      const name = this.isScope(item) ? this.scopes[item - this.n].path : whole;
      const own = path.endsWith(whole) ? path.slice(0, path.length - whole.length) + name : `∂${name}`;
      const known = this.twins.get(item);
      if (known === undefined) {
        const { depth } = this.scopes[this.isScope(item) ? item - this.n : twin];
        const label = this.isScope(item) ? this.scopes[item - this.n].label : leaf(name);
        const added = this.addScope(own, label, twin, this.isScope(item) ? depth : depth + 1, item);
        this.scopes[twin].twins.push(added);
        this.twins.set(item, added);
        twin = added;
      } else {
        if (!this.byPath.has(own)) this.byPath.set(own, known); // the same node in another gradient
        twin = known;
      }
    }
    return twin;
  }

  private ensureScope(path: string): number {
    const known = this.byPath.get(path);
    if (known !== undefined) return known;
    let at = 0;
    for (let end = path.indexOf("/", 1); ; end = path.indexOf("/", end + 1)) {
      const prefix = end < 0 ? path : path.slice(0, end);
      let next = this.byPath.get(prefix);
      if (next === undefined) {
        const parent = this.scopes[at];
        const label = prefix.slice(parent.path ? parent.path.length + 1 : 0) || "/";
        next = this.addScope(prefix, label, at, parent.depth + 1, -1);
        parent.scopes.push(next);
      }
      at = next;
      if (end < 0) return at;
    }
  }

  /** The node of this full name, or -1. */
  node(name: string): number {
    return this.byName.get(name) ?? -1;
  }

  /** The scope of this path, or -1. */
  scope(path: string): number {
    return this.byPath.get(path) ?? -1;
  }

  isScope(item: number): boolean {
    return item >= this.n;
  }

  /** Full name of an item; scopes carry a closing slash, so that no node can have the same one. */
  itemName(item: number): string {
    return item < this.n ? this.spec.names[item] : `${this.scopes[item - this.n].path}/`;
  }

  /** The item of a name made by `itemName`, or -1. */
  itemOf(name: string): number {
    const node = this.node(name);
    if (node >= 0 || !name.endsWith("/")) return node;
    const scope = this.scope(name.slice(0, -1));
    return scope > 0 ? this.n + scope : -1;
  }

  op(node: number): string {
    return this.spec.ops[this.call[node]];
  }

  category(node: number): string {
    return this.spec.categories[this.call[node]];
  }

  kindOf(node: number): Kind {
    return KINDS[this.kind[node]] ?? "array";
  }

  /** `f32[B, 64]` of each output. */
  outputSpecs(node: number): string[] {
    const out: string[] = [];
    for (let t = this.firstTensor[node]; t < this.firstTensor[node + 1]; t++) out.push(this.spec.specs[this.specOf[t]]);
    return out;
  }

  /** The twin of an item, as an item, or -1. */
  twinOf(item: number): number {
    const twin = this.twins.get(item);
    return twin === undefined ? -1 : this.n + twin;
  }

  isTwin(item: number): boolean {
    return item >= this.n && this.scopes[item - this.n].of >= 0;
  }

  /** The item that an item is the twin of, or its twin, or -1: what stands beside it. */
  pairOf(item: number): number {
    const of = this.isScope(item) ? this.scopes[item - this.n].of : -1;
    return of >= 0 ? of : this.twinOf(item);
  }

  /** The tensors that a node makes, or that leave a scope for other nodes of its layer. */
  resultsOf(item: number): number[] {
    const { n, scopes, scopeOf, layer, firstTensor, firstConsumer, consumers, edgeTarget } = this;
    if (item < n) return Array.from({ length: firstTensor[item + 1] - firstTensor[item] }, (_, k) => firstTensor[item] + k);
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

  /** Whether all nodes of an item are in the derived layer and the gradient of no node. */
  isUpdate(item: number): boolean {
    const { layer, n, scopes } = this;
    const pending = [item];
    for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
      if (next < n) {
        if (layer[next] !== UPDATE) return false;
        continue;
      }
      for (const node of scopes[next - n].nodes) pending.push(node);
      for (const s of scopes[next - n].scopes) pending.push(n + s);
    }
    return true;
  }

  /** Nodes and scopes in a scope, without twins, in the order of creation: scopes count from their first node. */
  members(scope: number): number[] {
    const { nodes, scopes } = this.scopes[scope];
    const keyed = [...nodes.map((i) => [i, i] as const), ...scopes.map((s) => [this.scopes[s].first, this.n + s] as const)];
    return keyed.sort((a, b) => a[0] - b[0]).map(([, item]) => item);
  }

  /** What is listed in a scope: its members, each followed by the twin that stands in the same scope. */
  children(scope: number): number[] {
    const { of, twins } = this.scopes[scope];
    if (of >= this.n) return this.members(of - this.n).flatMap((item) => (this.twins.has(item) ? [this.twinOf(item)] : []));
    if (!twins.length) return this.members(scope);
    return this.members(scope).flatMap((item) => (this.twins.has(item) ? [item, this.twinOf(item)] : [item]));
  }

  /** The scopes that are open together with these: the twin of a scope follows the scope. */
  opened(scopes: Iterable<number>): Set<number> {
    const open = new Set<number>();
    for (const s of scopes) {
      const scope = this.stateOf(s);
      open.add(scope);
      const twin = this.twins.get(this.n + scope);
      if (twin !== undefined) open.add(twin);
    }
    return open;
  }

  /** The scope that has to be opened for a scope to be open: itself, or what it is the twin of. */
  stateOf(scope: number): number {
    const { of } = this.scopes[scope];
    return of > this.n ? of - this.n : scope;
  }

  /**
   * Scopes to open at first: breadth first, small ones before large ones, while the forward drawing
   * stays within `budget` visible items, so that a large graph starts as a readable overview.
   */
  openAtFirst(budget = 40): number[] {
    const open: number[] = [];
    const forward = (scope: number): number => this.members(scope).filter((item) => !this.isUpdate(item)).length;
    let visible = forward(0);
    const byDepth = this.scopes.map((_, s) => s).filter((s) => s > 0 && this.scopes[s].of < 0);
    byDepth.sort((a, b) => this.scopes[a].depth - this.scopes[b].depth || this.scopes[a].size - this.scopes[b].size || a - b);
    const isOpen = new Set([0]);
    for (const s of byDepth) {
      if (!isOpen.has(this.scopes[s].parent) || this.isUpdate(this.n + s)) continue;
      const more = forward(s) - 1;
      if (visible + more > budget) continue;
      visible += more;
      isOpen.add(s);
      open.push(s);
    }
    return open;
  }
}

function pathOf(name: string): string {
  return name.slice(0, Math.max(0, name.lastIndexOf("/")));
}

/** What is the gradient of an update counts as an update: it has no place in the forward drawing to stand beside. */
function layersOf(origin: Int32Array, derived: Uint8Array): Int8Array {
  const layer = new Int8Array(origin.length);
  const done = Uint8Array.from(derived, (flag) => 1 - flag);
  for (let i = 0; i < origin.length; i++) {
    const chain: number[] = [];
    let at = i;
    for (; at >= 0 && !done[at]; at = origin[at]) {
      done[at] = 1;
      layer[at] = UPDATE;
      chain.push(at);
    }
    for (let node = chain.pop(), below = at < 0 ? UPDATE : layer[at]; node !== undefined; node = chain.pop()) {
      layer[node] = below = below === UPDATE ? UPDATE : below + 1;
    }
  }
  return layer;
}

/** Start of each group in a column sorted or counted by `keys`. */
function offsets(keys: Int32Array, groups: number): Int32Array {
  const out = new Int32Array(groups + 1);
  for (let i = 0; i < keys.length; i++) out[keys[i] + 1]++;
  for (let g = 0; g < groups; g++) out[g + 1] += out[g];
  return out;
}
