// The graph as the kernel sends it, decoded into columns and indexed by scope.

import { mainRow } from "./card_face";
import { layersOf, UPDATE } from "./layers";
import { anywhere, chainsOf, framesOf, leaf, pathOf } from "./names";
import { judgeRoles, type Role } from "./roles";
import { columnsOf, GROUPS, KINDS, type AdapterSpec, type GraphSpec, type GroupColumns, type Kind } from "./wire";
import { bytes, int32 } from "../../../core/buffers";

export interface Scope {
  /** `block/attention`; the root scope is the empty path. */
  path: string;
  /** What is written on it: the last part of the path, or the title of a group. */
  label: string;
  /** Groups are blocks, cards and runs of blocks that are alike; what names and insides make is called a scope. */
  kind: "scope" | (typeof GROUPS)[number];
  /** The group's number among the groups, and that of the first scope of its structure; -1 of others. */
  group: number;
  like: number;
  parent: number;
  depth: number;
  scopes: number[];
  nodes: number[];
  /** Twins that stand in this scope beside the items they belong to (see below). */
  twins: number[];
  /** The item whose gradient this scope holds, or -1. */
  of: number;
  /** The node whose inside this scope holds, or -1: then it is the frame of an opened node. */
  frame: number;
  /** The layer of what stands in it. */
  layer: number;
  /** Nodes in this scope and below, and the first of them. */
  size: number;
  first: number;
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
 *
 * An opened node is a scope, too, its frame, which has the name of the node and holds what the node encloses; at the end
 * of that stands the node itself, as what makes the results.
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
  /** The node that a node is inside of, or -1. */
  readonly holder: Int32Array;
  /** The number of a node in the graph as it was sent, -1 of what is inside of others. */
  readonly sent: Int32Array;
  private readonly roles: Uint8Array;
  /** The group of each node, or -1, where there are groups; group k is scope k + 1. */
  private readonly groupOf?: Int32Array;
  /** The frame of each opened node. */
  private readonly frames = new Map<number, number>();
  private readonly twins = new Map<number, number>();
  private readonly chains: Map<string, string>;
  private readonly adapters = new Map<number, AdapterSpec>();
  private readonly byName = new Map<string, number>();
  private readonly byPath = new Map<string, number>();

  constructor(readonly spec: GraphSpec) {
    if (spec.version !== 1) throw new Error(`graph format ${String(spec.version)} is newer than this view (1)`);
    const n = (this.n = spec.names.length);
    const columns = columnsOf(spec);
    const { edges } = columns;
    this.call = columns.call;
    this.kind = columns.kind;
    this.firstTensor = columns.firstTensor;
    this.specOf = columns.specOf;
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
    this.roles = spec.role ? new Uint8Array(bytes(spec.role)) : judgeRoles({ ...this, random: (node) => this.category(node) === "random" });
    this.holder = spec.holder ? int32(spec.holder) : new Int32Array(n).fill(-1);
    this.sent = spec.sent ? int32(spec.sent) : Int32Array.from(spec.names, (_, i) => i);
    this.scopes = [];
    this.addScope("", spec.name, -1, 0, -1, 0);
    Object.assign(this.scopes[0], { size: n, first: 0 });
    if (spec.groups && spec.group) {
      this.groupOf = int32(spec.group);
      this.addGroups(spec.groups);
    }
    this.scopeOf = new Int32Array(n).fill(-1);
    spec.names.forEach((name, i) => this.byName.set(name, i));
    const opened = new Set(this.holder);
    this.chains = chainsOf(spec.names.filter((_, i) => this.layer[i] <= 0 && this.holder[i] < 0 && !this.groupOf).map(pathOf));
    for (let i = 0; i < n; i++) if (this.layer[i] <= 0) this.put(i, this.home(i, opened));
    for (let order = 1, more = true; more; order++) {
      more = false;
      for (let i = 0; i < n; i++) {
        if (this.layer[i] !== order) continue;
        this.put(i, this.home(i, opened));
        more = true;
      }
    }
    for (const [path, inner] of this.chains) this.byPath.set(path, this.byPath.get(inner)!);
    for (const adapter of spec.adapters ?? []) {
      for (const scope of adapter.scopes.map((path) => this.byPath.get(path))) if (scope !== undefined) this.adapters.set(scope, adapter);
    }
  }

  /** The adapter that a scope is of. */
  adapter(item: number): AdapterSpec | undefined {
    return this.adapters.get(item - this.n);
  }

  private addGroups({ names, titles, rows, categories, parent, kind, like }: GroupColumns): void {
    const [parents, kinds, likes] = [int32(parent), new Uint8Array(bytes(kind)), int32(like)];
    names.forEach((path, group) => {
      const around = parents[group] + 1;
      const scope = this.addScope(path, titles[group] || rows[group][mainRow(categories[group])] || leaf(path), around, this.scopes[around].depth + 1, -1, 0);
      Object.assign(this.scopes[scope], { kind: GROUPS[kinds[group]], group, like: likes[group] + 1 });
      this.scopes[around].scopes.push(scope);
    });
  }

  /** The scope that a node stands in; what is inside of others comes before them, so their frames are made here. */
  private home(node: number, opened: Set<number>): number {
    if (this.holder[node] < 0 && !opened.has(node)) return this.around(node);
    const chain = [node]; // outwards, as far as there are no frames yet
    for (let h = this.holder[node]; h >= 0 && !this.frames.has(h); h = this.holder[h]) chain.push(h);
    let scope = 0;
    for (let at = chain.pop(); at !== undefined; at = chain.pop()) {
      scope = this.frames.get(at) ?? this.around(at);
      if (!opened.has(at) || this.frames.has(at)) continue;
      scope = this.child(`${this.spec.names[at]}::`, leaf(this.spec.names[at]), scope, at);
      this.frames.set(at, scope);
    }
    return scope;
  }

  /** The scope around a node or its frame: in what it is inside of, beside its origin, or as its name says. */
  private around(node: number): number {
    const name = this.spec.names[node];
    const holder = this.holder[node];
    if (holder < 0 && this.groupOf && !this.layer[node]) return this.groupOf[node] + 1;
    if (holder < 0) return this.layer[node] > 0 ? this.ensureTwin(this.origin[node], pathOf(name)) : this.ensureScope(pathOf(name));
    const slash = name.lastIndexOf("/");
    const inner = name.lastIndexOf(":") + 1;
    const part = name.slice(this.spec.names[holder].length + 1, inner - 1); // "then" and "else" in branches
    const frame = this.frames.get(holder)!;
    const scope = part ? this.child(name.slice(0, inner), part, frame) : frame;
    // Inputs are called after what they stand for, wherever that is.
    return slash < inner || this.kindOf(node) === "placeholder" ? scope : this.ensureScope(name.slice(0, slash), scope, inner);
  }

  private put(node: number, scope: number): void {
    this.scopeOf[node] = scope;
    this.scopes[scope].nodes.push(node);
    for (let s = scope; s > 0; s = this.scopes[s].parent) {
      if (!this.scopes[s].size++) this.scopes[s].first = node;
    }
  }

  private addScope(path: string, label: string, parent: number, depth: number, of: number, layer: number, frame = -1): number {
    const scope = this.scopes.push({ path, label, kind: "scope", group: -1, like: -1, parent, depth, scopes: [], nodes: [], twins: [], of, frame, layer, size: 0, first: -1 }) - 1;
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
        const layer = this.isScope(item) ? 1 : this.layer[item] + 1;
        const added = this.addScope(own, label, twin, this.isScope(item) ? depth : depth + 1, item, layer);
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

  /** The scope of a path, and those around it, inside the scope `at`, whose path is the first `from` letters. */
  private ensureScope(path: string, at = 0, from = 0): number {
    const known = this.byPath.get(path);
    if (known !== undefined) return known;
    let scope = at;
    for (const [prefix, label] of framesOf(path, from, this.chains)) scope = this.child(prefix, label, scope);
    return scope;
  }

  /** The scope of a path in the scope `at`; of an opened node it is the frame. */
  private child(path: string, label: string, at: number, frame = -1): number {
    const known = this.byPath.get(path);
    if (known !== undefined) return known;
    const { depth, layer } = this.scopes[at];
    const scope = this.addScope(path, label, at, depth + 1, -1, frame < 0 ? layer : this.layer[frame], frame);
    this.scopes[at].scopes.push(scope);
    return scope;
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

  /** Full name of an item; scopes carry a closing slash, so that no node can have the same one, and frames the name of their node. */
  itemName(item: number): string {
    const node = this.nodeAt(item);
    return node >= 0 ? this.spec.names[node] : `${this.scopes[item - this.n].path}/`;
  }

  /** The item of a name made by `itemName`, or of an address in some turn of a loop; -1 if there is none. */
  itemOf(name: string): number {
    const text = anywhere(name);
    const node = this.node(text);
    if (node >= 0) return this.frameOf(node);
    const scope = text.endsWith("/") ? this.scope(text.slice(0, -1)) : 0;
    return scope > 0 ? this.n + scope : -1;
  }

  /** The frame of an opened node as an item, any other node as it is. */
  frameOf(node: number): number {
    const frame = this.frames.get(node);
    return frame === undefined ? node : this.n + frame;
  }

  /** The node that an item is, or is the frame of; -1 for scopes. */
  nodeAt(item: number): number {
    return item < this.n ? item : this.scopes[item - this.n].frame;
  }

  /** Whether a node makes the results of its own frame. */
  isOpened(node: number): boolean {
    return this.frames.has(node);
  }

  /** Whether an item has an inside to show: scopes, and nodes that enclose others. */
  opens(item: number): boolean {
    return item >= this.n || (!this.frames.has(item) && this.spec.opens?.[this.call[item]] === true);
  }

  /** What an item is called where it is open, as `expanded` lists it. */
  pathOf(item: number): string {
    return item < this.n ? `${this.spec.names[item]}::` : this.scopes[this.stateOf(item - this.n)].path;
  }

  op(node: number): string {
    return this.spec.ops[this.call[node]];
  }

  category(node: number): string {
    return this.spec.categories[this.call[node]];
  }

  role(node: number): Role {
    return this.roles[node];
  }

  /** Whether an edge is left out: weights and sizes that other cards read, too, would be lines across the whole drawing. */
  hides(edge: number): boolean {
    if (!this.groupOf) return false;
    const [from, to] = [this.nodeOf[this.edgeTensor[edge]], this.edgeTarget[edge]];
    return (this.roles[from] || this.roles[to]) > 0 && !this.layer[from] && !this.layer[to] && this.groupOf[from] !== this.groupOf[to];
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

  /** Takes over another state of the same graph, in which other nodes are opened. */
  become(other: GraphModel): void {
    Object.assign(this, other);
  }

  /** The item that an item is the twin of, or its twin, or -1: what stands beside it. */
  pairOf(item: number): number {
    const of = this.isScope(item) ? this.scopes[item - this.n].of : -1;
    return of >= 0 ? of : this.twinOf(item);
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
}

/** Start of each group in a column sorted or counted by `keys`. */
function offsets(keys: Int32Array, groups: number): Int32Array {
  const out = new Int32Array(groups + 1);
  for (let i = 0; i < keys.length; i++) out[keys[i] + 1]++;
  for (let g = 0; g < groups; g++) out[g + 1] += out[g];
  return out;
}
