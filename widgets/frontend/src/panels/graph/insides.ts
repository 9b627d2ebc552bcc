// What nodes enclose, put into the graph around them: an opened node is a scope that holds its inputs, its inside, and
// at its end the node itself, which makes its results of what is inside. So all that works on scopes works on it.

import { bytes, int32 } from "../../core/buffers";
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
  const [m, t0, more] = [inside.names.length, outer.firstTensor[at], inner.firstTensor[inside.names.length]];
  const moved = (node: number): number => (node < at ? node : node + m);
  const tensor = (t: number): number => (t < t0 ? t : t + more);
  const into = <T>(list: ArrayLike<T>, added: ArrayLike<T>, where: number): T[] => [...Array.from(list).slice(0, where), ...Array.from(added), ...Array.from(list).slice(where)];

  const entries = pairs(inside.entries);
  const own: number[][] = []; // edges inside and into the node itself
  const before: number[] = [];
  const after: number[] = [];
  for (let e = 0; e < outer.edges.length; e += 3) {
    const [t, node, position] = outer.edges.subarray(e, e + 3);
    if (node !== at) (node < at ? before : after).push(tensor(t), moved(node), position);
    else {
      const taken = entries.filter(([argument]) => argument === position);
      for (const [, input] of taken) own.push([tensor(t), at + input, position]);
      if (!taken.length) own.push([tensor(t), at + m, position]);
    }
  }
  for (let e = 0; e < inner.edges.length; e += 3) own.push([t0 + inner.edges[e], at + inner.edges[e + 1], inner.edges[e + 2]]);
  for (const [t, position] of pairs(inside.exits)) own.push([t0 + t, at + m, position]);
  own.sort((a, b) => a[1] - b[1] || a[2] - b[2]);

  const [calls, specs] = [spec.calls.length, spec.specs.length];
  const holder = spec.holder ? int32(spec.holder) : new Int32Array(spec.names.length).fill(-1);
  const derived = new Uint8Array(bytes(spec.derived));
  const origin = int32(spec.origin);
  const sent = spec.sent ? int32(spec.sent) : Int32Array.from(spec.names, (_, node) => node);
  const columns = {
    call: into(outer.call, inner.call.map((k) => k + calls), at),
    first_tensor: [...outer.firstTensor.subarray(0, at), ...inner.firstTensor.map((t) => t + t0), ...outer.firstTensor.subarray(at + 1).map((t) => t + more)],
    spec: into(outer.specOf, inner.specOf.map((k) => k + specs), t0),
    edges: [...before, ...own.flat(), ...after],
    origin: into(origin, inner.call.map(() => origin[at]), at).map((node) => (node < 0 ? node : moved(node))),
    holder: into(holder.map((node) => (node < 0 ? node : moved(node))), inner.call.map(() => at + m), at),
    sent: into(sent, inner.call.map(() => -1), at),
  };
  return {
    ...spec,
    names: into(spec.names, inside.names, at),
    calls: [...spec.calls, ...inside.calls],
    ops: [...spec.ops, ...inside.ops],
    categories: [...spec.categories, ...inside.categories],
    opens: [...spec.opens, ...inside.opens],
    specs: [...spec.specs, ...inside.specs],
    kind: view(Uint8Array.from(into(outer.kind, inner.kind, at))),
    derived: view(Uint8Array.from(into(derived, inner.call.map(() => derived[at]), at))),
    ...(Object.fromEntries(Object.entries(columns).map(([name, list]) => [name, view(Int32Array.from(list))])) as Record<keyof typeof columns, DataView>),
  };
}

function view(list: Int32Array | Uint8Array): DataView {
  return new DataView(list.buffer);
}

function pairs(column: DataView): [number, number][] {
  const flat = int32(column);
  return Array.from({ length: flat.length / 2 }, (_, k) => [flat[2 * k], flat[2 * k + 1]]);
}
