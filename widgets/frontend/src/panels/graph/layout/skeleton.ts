// Layers: which row each vertex of a level stands in, and the segments between neighbouring rows.
//
// 1. Cycles (two scopes can each need the other) are opened at the edges that run against creation order.
// 2. Rows are chosen so that lines are short in total (see rank.ts).
// 3. A net that spans several rows gets one bend per row, shared by all of its targets like the trunk of a tree.

import type { Level } from "./level";
import { assignRows } from "./rank";
import { findSpine, type Segments, type Spine } from "./spine";
import { spreadWide, WIDE } from "./wide";

/** Bends are added up to this many; beyond, the longest nets are drawn as direct curves. */
const BENDS_PER_VERTEX = 8;
const BENDS_AT_LEAST = 20_000;

export interface Skeleton {
  level: Level;
  /** Items and ports first, as numbered by the level; bends after them. */
  vertexCount: number;
  realCount: number;
  rank: Int32Array;
  rankCount: number;
  /** The row that was asked for, of each rank: rows that nobody stands in are left out. */
  rows: number[];
  /** What hangs on to its reader: weights, what is made of them, arithmetic on shapes. */
  floating: Uint8Array;
  /** A flag for each that stands in a block of rows. */
  block?: Uint8Array;
  /** The main line; lanes follow that of the level beside them. */
  spine?: Spine;
  /** Segments that leave the main line of a lane for a gradient from which nothing goes on, such as that of a bias. */
  aside?: Uint8Array;
  segments: Segments;
  /** How many lines run through each bend that several share. */
  carried: Map<number, number>;
  /** Pairs (net, index of target) that run upwards, and those drawn without bends. */
  feedback: [number, number][];
  express: [number, number][];
}

export function buildSkeleton(level: Level): Skeleton {
  const itemCount = level.items.length;
  const inEnd = itemCount + level.inPorts.length;
  const realCount = inEnd + level.outPorts.length;
  const out: number[][] = Array.from({ length: realCount }, () => []);
  const inn: number[][] = Array.from({ length: realCount }, () => []);
  for (const net of level.nets) {
    for (const target of net.targets) {
      out[net.source].push(target);
      inn[target].push(net.source);
    }
  }
  const { topological, against } = orderVertices(out, inn);
  const forward = (a: number, b: number): boolean => !against.size || !against.has(a * realCount + b);

  // Rows: ports have rows of their own above and below the children.
  const tail: number[] = [];
  const head: number[] = [];
  for (let v = 0; v < itemCount; v++) {
    for (const w of new Set(out[v])) {
      if (w >= itemCount || !forward(v, w)) continue;
      tail.push(v);
      head.push(w);
    }
  }
  const floating = Uint8Array.from({ length: realCount }, (_, v) => Number(level.stored[v] ?? 0));
  const close = assignRows({ vertexCount: itemCount, tail, head, late: floating });
  const { rows, block } = spreadWide(close, inn, out, floating);
  const base = level.inPorts.length ? 1 : 0;
  const rank = new Int32Array(realCount);
  let deepest = 0;
  for (let v = 0; v < itemCount; v++) deepest = Math.max(deepest, (rank[v] = rows[v] + base));
  for (let v = inEnd; v < realCount; v++) rank[v] = deepest + 1;
  const skeleton = addBends(level, realCount, rank, floating, against, block);
  const beside = floating.map((flag, v) => Number(flag || block[v] === 1));
  return { ...skeleton, block, spine: findSpine(level, topological, forward, beside, skeleton.vertexCount, skeleton.segments) };
}

/**
 * The gradients beside a level, in rows that are given: lines run against those of the level, so row 0 is the last of
 * the level's. Ports have rows of their own below and above, `rows` counts without them.
 */
export function buildLane(level: Level, rowOf: number[], rows: number): Skeleton {
  const inEnd = level.items.length + level.inPorts.length;
  const realCount = inEnd + level.outPorts.length;
  const rank = new Int32Array(realCount);
  rowOf.forEach((row, v) => (rank[v] = row + 1));
  for (let v = inEnd; v < realCount; v++) rank[v] = rows + 1;
  const against = new Set<number>();
  for (const { source, targets } of level.nets) {
    for (const target of targets) if (rank[target] <= rank[source]) against.add(source * realCount + target);
  }
  const skeleton = addBends(level, realCount, rank, new Uint8Array(realCount), against);
  return { ...skeleton, aside: markAside(skeleton) };
}

/** Of the lines that leave a vertex, those that go on for longer keep their direction and the others step aside. */
function markAside({ vertexCount, realCount, level, rank, segments }: Skeleton): Uint8Array {
  const reach = new Float64Array(vertexCount); // rows until a line ends, Infinity if it leaves the level
  reach.fill(Infinity, level.items.length + level.inPorts.length, realCount);
  const order = Array.from({ length: segments.count }, (_, s) => s).sort((a, b) => rank[segments.lower[b]] - rank[segments.lower[a]] || a - b);
  for (const s of order) {
    const lower = segments.lower[s];
    reach[segments.upper[s]] = Math.max(reach[segments.upper[s]], 1 + reach[lower]);
  }
  return Uint8Array.from({ length: segments.count }, (_, s) => Number(1 + reach[segments.lower[s]] < reach[segments.upper[s]]));
}

/** Kahn's order; where only cycles remain, the vertex created first goes next and its open inputs count as feedback. */
function orderVertices(out: number[][], inn: number[][]): { topological: number[]; against: Set<number> } {
  const n = out.length;
  const waiting = Int32Array.from(inn, (list) => list.length);
  const placed = new Uint8Array(n);
  const topological: number[] = [];
  const against = new Set<number>();
  const place = (v: number): void => {
    placed[v] = 1;
    topological.push(v);
  };
  for (let v = 0; v < n; v++) if (!waiting[v]) place(v);
  let head = 0;
  for (let first = 0; ; ) {
    for (; head < topological.length; head++) {
      for (const w of out[topological[head]]) if (--waiting[w] === 0 && !placed[w]) place(w);
    }
    if (topological.length === n) return { topological, against };
    while (placed[first]) first++;
    for (const u of inn[first]) if (!placed[u]) against.add(u * n + first);
    place(first);
  }
}

type Join = (upper: number, lower: number, net: number, upperSlot: number, lowerSlot: number) => void;

function addBends(level: Level, realCount: number, realRank: Int32Array, floating: Uint8Array, against: Set<number>, block?: Uint8Array): Skeleton {
  const feedback: [number, number][] = [];
  const express: [number, number][] = [];
  const rank: number[] = Array.from(realRank);
  const columns: Record<"upper" | "lower" | "net" | "upperSlot" | "lowerSlot", number[]> = {
    upper: [], lower: [], net: [], upperSlot: [], lowerSlot: [],
  };
  const join: Join = (upper, lower, net, upperSlot, lowerSlot) => {
    columns.upper.push(upper);
    columns.lower.push(lower);
    columns.net.push(net);
    columns.upperSlot.push(upperSlot);
    columns.lowerSlot.push(lowerSlot);
  };
  const slotOf = outputSlots(level);

  let budget = Math.max(BENDS_AT_LEAST, BENDS_PER_VERTEX * realCount);
  const into = new Int32Array(realCount);
  for (const { targets } of level.nets) for (const target of targets) into[target]++;
  // Many lines to one place, and those out of a block of rows, share their way.
  const meets = (source: number, target: number): boolean => (into[target] > WIDE || (block?.[source] ?? 0) > 0) && !against.has(source * realCount + target);
  const bends = new Map<number, number>(); // on the shared way to each place
  for (const { source, targets } of level.nets) {
    for (const target of targets) if (meets(source, target)) bends.set(target, Math.max(bends.get(target) ?? 0, realRank[target] - realRank[source] - 1));
  }
  const shared = new Set<number>();
  for (const [target, count] of [...bends].sort((a, b) => a[1] - b[1])) {
    if (count > budget) break;
    budget -= count;
    shared.add(target);
  }
  const shares = (source: number, target: number): boolean => shared.has(target) && meets(source, target);

  const spans = level.nets.map((net, k) => {
    let deepest = 0;
    for (const target of net.targets) if (!shares(net.source, target)) deepest = Math.max(deepest, realRank[target]);
    return { net: k, bends: Math.max(0, deepest - realRank[net.source] - 1) };
  });
  const direct = new Uint8Array(level.nets.length);
  for (const { net, bends } of [...spans].sort((a, b) => a.bends - b.bends || a.net - b.net)) {
    if (bends > budget) direct[net] = 1;
    else budget -= bends;
  }
  const gathered = new Map<number, [net: number, position: number][]>(); // by the place that they lead to

  level.nets.forEach((net, k) => {
    const trunk = [net.source]; // trunk[d]: the vertex that carries the net d rows below its source
    const byDepth = net.targets.map((target, i) => [realRank[target], i]).sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    for (const [row, i] of byDepth) {
      const target = net.targets[i];
      if (against.has(net.source * realCount + target)) feedback.push([k, i]);
      else if (shares(net.source, target)) {
        const lines = gathered.get(target) ?? [];
        gathered.set(target, lines);
        lines.push([k, net.positions[i]]);
      }
      else if (direct[k]) express.push([k, i]);
      else {
        while (trunk.length < row - realRank[net.source]) {
          const bend = rank.length;
          rank.push(realRank[net.source] + trunk.length);
          const above = trunk[trunk.length - 1];
          join(above, bend, k, above === net.source ? slotOf[k] : 0, 0);
          trunk.push(bend);
        }
        const above = trunk[row - realRank[net.source] - 1];
        join(above, target, k, above === net.source ? slotOf[k] : 0, net.positions[i]);
      }
    }
  });
  const carried = new Map<number, number>();
  for (const [target, lines] of gathered) gather(level, target, lines, rank, join, carried);
  const used = [...new Set(rank)].sort((a, b) => a - b);
  const compact = new Map(used.map((row, k) => [row, k]));
  return {
    level,
    vertexCount: rank.length,
    realCount,
    rank: Int32Array.from(rank, (row) => compact.get(row)!),
    rankCount: used.length,
    rows: used,
    floating,
    segments: {
      count: columns.upper.length,
      upper: Int32Array.from(columns.upper),
      lower: Int32Array.from(columns.lower),
      net: Int32Array.from(columns.net),
      upperSlot: Int32Array.from(columns.upperSlot),
      lowerSlot: Int32Array.from(columns.lowerSlot),
    },
    carried,
    feedback,
    express,
  };
}

/** Leads lines to a place down one way: a bend per row, from the first that begins. */
function gather(level: Level, target: number, lines: [net: number, position: number][], rank: number[], join: Join, carried: Map<number, number>): void {
  const last = rank[target];
  const rows = lines.map(([net]) => rank[level.nets[net].source] + 1);
  const first = rows.reduce((low, row) => Math.min(low, row), last);
  const begin = new Int32Array(last - first + 1); // how many lines do in each row
  for (const row of rows) begin[row - first]++;
  const bends = Array.from({ length: last - first }, (_, k) => rank.push(first + k) - 1);
  lines.forEach(([net, position], i) => join(level.nets[net].source, rows[i] < last ? bends[rows[i] - first] : target, net, 0, rows[i] < last ? 0 : position));
  const [[net, position]] = lines;
  let count = 0;
  bends.forEach((bend, k) => {
    join(bend, bends[k + 1] ?? target, net, 0, k + 1 < bends.length ? 0 : position);
    carried.set(bend, (count += begin[k]));
  });
}

/** Nets of one source leave it side by side, in the order of its results. */
function outputSlots(level: Level): Int32Array {
  const slots = new Int32Array(level.nets.length);
  const seen = new Map<number, number>();
  level.nets.forEach((net, k) => {
    const slot = seen.get(net.source) ?? 0;
    slots[k] = slot;
    seen.set(net.source, slot + 1);
  });
  return slots;
}
