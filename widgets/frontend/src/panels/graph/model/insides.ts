// What nodes enclose, put into the graph around them: an opened node is a scope that holds its inputs, its inside, and
// at its end the node itself, which makes its results of what is inside. So all that works on scopes works on it.

import { bytes, int32 } from "../../../core/buffers";
import { columnsOf, type GraphColumns, type GraphSpec } from "./wire";

/** What travels when a node is opened: the columns of a graph, and how it is joined to the arguments and results of the node. */
export interface InsideSpec extends GraphColumns {
  /** i32[entries, 2]: position of an argument, node inside that stands for it. */
  entries: DataView;
  /** i32[exits, 2]: tensor inside, position at which the node takes it. */
  exits: DataView;
}

/** By address, `scan::norm`. */
export type Insides = Record<string, InsideSpec>;

/** The graph with the insides of all nodes that are in it, those in other insides included. */
export function spliced(spec: GraphSpec, insides: Insides): GraphSpec {
  const outermost = Object.keys(insides).sort((a, b) => a.split(":").length - b.split(":").length);
  return outermost.reduce((graph, address) => splice(graph, graph.names.indexOf(address), insides[address]), spec);
}

/** The inside comes right before its node, so that what feeds others still stands before them. */
function splice(spec: GraphSpec, at: number, inside: InsideSpec): GraphSpec {
  if (at < 0) return spec;
  const [outer, inner] = [columnsOf(spec), columnsOf(inside)];
  const [n, m, t0, more] = [spec.names.length, inside.names.length, outer.firstTensor[at], inner.firstTensor[inside.names.length]];
  const moved = (node: number): number => (node < at ? node : node + m);
  const tensor = (t: number): number => (t < t0 ? t : t + more);

  const edges: number[] = [];
  const own: [number, number, number][] = []; // edges inside and into the node itself
  const entries = pairs(inside.entries);
  let e = 0;
  for (; e < outer.edges.length && outer.edges[e + 1] < at; e += 3) edges.push(tensor(outer.edges[e]), outer.edges[e + 1], outer.edges[e + 2]);
  for (; e < outer.edges.length && outer.edges[e + 1] === at; e += 3) {
    const [t, position] = [tensor(outer.edges[e]), outer.edges[e + 2]];
    const taken = entries.filter(([argument]) => argument === position);
    for (const [, input] of taken) own.push([t, at + input, position]);
    if (!taken.length) own.push([t, at + m, position]);
  }
  for (let k = 0; k < inner.edges.length; k += 3) own.push([t0 + inner.edges[k], at + inner.edges[k + 1], inner.edges[k + 2]]);
  for (const [t, position] of pairs(inside.exits)) own.push([t0 + t, at + m, position]);
  own.sort((a, b) => a[1] - b[1] || a[2] - b[2]);
  for (const edge of own) edges.push(...edge);
  for (; e < outer.edges.length; e += 3) edges.push(tensor(outer.edges[e]), outer.edges[e + 1] + m, outer.edges[e + 2]);

  const [calls, specs] = [spec.calls.length, spec.specs.length];
  const derived = new Uint8Array(bytes(spec.derived));
  const origin = int32(spec.origin);
  const holder = spec.holder ? int32(spec.holder) : new Int32Array(n).fill(-1);
  const sent = spec.sent ? int32(spec.sent) : Int32Array.from(spec.names.keys());
  const node = (k: number): number => (k < 0 ? k : moved(k));
  const firsts = insert(outer.firstTensor.map((t, k) => (k <= at ? t : t + more)), inner.firstTensor.subarray(0, m).map((t) => t + t0), at);
  firsts[at + m] = t0 + more;
  return {
    ...spec,
    names: [...spec.names.slice(0, at), ...inside.names, ...spec.names.slice(at)],
    calls: [...spec.calls, ...inside.calls],
    ops: [...spec.ops, ...inside.ops],
    categories: [...spec.categories, ...inside.categories],
    opens: [...(spec.opens ?? []), ...(inside.opens ?? [])],
    specs: [...spec.specs, ...inside.specs],
    call: view(insert(outer.call, inner.call.map((k) => k + calls), at)),
    kind: view(insert(outer.kind, inner.kind, at)),
    first_tensor: view(firsts),
    spec: view(insert(outer.specOf, inner.specOf.map((k) => k + specs), t0)),
    edges: view(Int32Array.from(edges)),
    origin: view(insert(origin, new Int32Array(m).fill(origin[at]), at).map(node)),
    derived: view(insert(derived, new Uint8Array(m).fill(derived[at]), at)),
    holder: view(insert(holder.map(node), new Int32Array(m).fill(at + m), at)),
    ...(spec.role && { role: view(insert(new Uint8Array(bytes(spec.role)), inner.kind.map((kind) => Number(kind > 1)), at)) }),
    ...(spec.group && { group: view(insert(int32(spec.group), new Int32Array(m).fill(int32(spec.group)[at]), at)) }),
    sent: view(insert(sent, new Int32Array(m).fill(-1), at)),
  };
}

function insert<Column extends Int32Array | Uint8Array>(list: Column, added: Column, at: number): Column {
  const made = new (list.constructor as new (length: number) => Column)(list.length + added.length);
  made.set(list.subarray(0, at));
  made.set(added, at);
  made.set(list.subarray(at), at + added.length);
  return made;
}

function view(list: Int32Array | Uint8Array): DataView {
  return new DataView(list.buffer);
}

function pairs(column: DataView): [number, number][] {
  const flat = int32(column);
  return Array.from({ length: flat.length / 2 }, (_, k) => [flat[2 * k], flat[2 * k + 1]]);
}
