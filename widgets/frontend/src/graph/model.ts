// The graph as the kernel sends it, decoded into columns and indexed by scope.

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
}

export const KINDS = ["array", "placeholder", "variable", "constant"] as const;
export type Kind = (typeof KINDS)[number];

export interface Scope {
  /** `block/attention`; the root scope is the empty path. */
  path: string;
  /** The last part of the path. */
  label: string;
  parent: number;
  depth: number;
  scopes: number[];
  nodes: number[];
  /** Nodes in this scope and below, and the first of them. */
  size: number;
  first: number;
}

/** A scope's own name, or a node's: the part after the last slash. */
export function leaf(name: string): string {
  return name.slice(name.lastIndexOf("/") + 1) || name;
}

/** A copy, because a buffer may arrive at any byte offset. */
function int32(view: DataView): Int32Array {
  return new Int32Array(view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength));
}

/**
 * Drawable things are called items: item `i < n` is node i, item `n + s` is scope s.
 * Scope 0 is the root and is never drawn itself.
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
  private readonly byName = new Map<string, number>();
  private readonly byPath = new Map<string, number>();

  constructor(readonly spec: GraphSpec) {
    if (spec.version !== 1) throw new Error(`graph format ${String(spec.version)} is newer than this view (1)`);
    const n = (this.n = spec.names.length);
    this.call = int32(spec.call);
    this.kind = new Uint8Array(spec.kind.buffer, spec.kind.byteOffset, spec.kind.byteLength).slice();
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

    this.scopes = [{ path: "", label: spec.name, parent: -1, depth: 0, scopes: [], nodes: [], size: n, first: 0 }];
    this.byPath.set("", 0);
    this.scopeOf = new Int32Array(n);
    spec.names.forEach((name, i) => {
      this.byName.set(name, i);
      const slash = name.lastIndexOf("/");
      const scope = this.ensureScope(slash > 0 ? name.slice(0, slash) : "");
      this.scopeOf[i] = scope;
      this.scopes[scope].nodes.push(i);
      for (let s = scope; s > 0; s = this.scopes[s].parent) {
        if (!this.scopes[s].size++) this.scopes[s].first = i;
      }
    });
  }

  private ensureScope(path: string): number {
    const known = this.byPath.get(path);
    if (known !== undefined) return known;
    let at = 0;
    for (let end = path.indexOf("/", 1); ; end = path.indexOf("/", end + 1)) {
      const prefix = end < 0 ? path : path.slice(0, end);
      let next = this.byPath.get(prefix);
      if (next === undefined) {
        next = this.scopes.length;
        const parent = this.scopes[at];
        parent.scopes.push(next);
        const label = prefix.slice(parent.path ? parent.path.length + 1 : 0) || "/";
        this.scopes.push({ path: prefix, label, parent: at, depth: parent.depth + 1, scopes: [], nodes: [], size: 0, first: -1 });
        this.byPath.set(prefix, next);
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

  /** Children of a scope in the order of creation: scopes count from their first node. */
  children(scope: number): number[] {
    const { nodes, scopes } = this.scopes[scope];
    const keyed = [...nodes.map((i) => [i, i] as const), ...scopes.map((s) => [this.scopes[s].first, this.n + s] as const)];
    return keyed.sort((a, b) => a[0] - b[0]).map(([, item]) => item);
  }

  /**
   * Scopes to open at first: breadth first, small ones before large ones, while the drawing
   * stays within `budget` visible items, so that a large graph starts as a readable overview.
   */
  openAtFirst(budget = 40): number[] {
    const open: number[] = [];
    let visible = this.scopes[0].nodes.length + this.scopes[0].scopes.length;
    const byDepth = this.scopes.map((_, s) => s).slice(1);
    byDepth.sort((a, b) => this.scopes[a].depth - this.scopes[b].depth || this.scopes[a].size - this.scopes[b].size || a - b);
    const isOpen = new Set([0]);
    for (const s of byDepth) {
      const { parent, nodes, scopes } = this.scopes[s];
      const more = nodes.length + scopes.length - 1;
      if (!isOpen.has(parent) || visible + more > budget) continue;
      visible += more;
      isOpen.add(s);
      open.push(s);
    }
    return open;
  }
}

/** Start of each group in a column sorted or counted by `keys`. */
function offsets(keys: Int32Array, groups: number): Int32Array {
  const out = new Int32Array(groups + 1);
  for (let i = 0; i < keys.length; i++) out[keys[i] + 1]++;
  for (let g = 0; g < groups; g++) out[g + 1] += out[g];
  return out;
}
