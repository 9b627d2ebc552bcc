// The main line of a level: the path through most of what is computed, from where it comes in to where it goes out. It
// is drawn straight, through the middle of all it joins; everything else stands beside it.

import type { Level } from "./level";
import { BUS } from "./wide";

/** The lines of a level, cut into pieces from one row to the next. */
export interface Segments {
  count: number;
  upper: Int32Array;
  lower: Int32Array;
  net: Int32Array;
  /** Result index at the upper end and argument position at the lower end; 0 at bends and scopes. */
  upperSlot: Int32Array;
  lowerSlot: Int32Array;
}

export interface Spine {
  /** Of each vertex, bends included: the argument position at which the line comes in, 0 where it begins, -1 beside it. */
  entry: Int32Array;
  /** A flag per segment. */
  segments: Uint8Array;
}

/** Where a path begins at one of many inputs of a reader, it begins at the middle one, so that the reader stands under them all. */
function beginInTheMiddle(end: number, level: Level, length: Int32Array, before: Int32Array, by: Int32Array): void {
  let reader = end;
  while (before[reader] >= 0 && before[before[reader]] >= 0) reader = before[reader];
  const first = before[reader];
  if (first < 0) return;
  const alike = level.nets.flatMap(({ source, targets }, net) =>
    before[source] < 0 && length[source] === length[first] && targets.length === 1 && targets[0] === reader ? [{ source, net }] : []);
  if (alike.length < BUS) return;
  const middle = alike[alike.length >> 1];
  [before[reader], by[reader]] = [middle.source, middle.net];
}

/** Of two paths through as many nodes, the one whose end was created first. */
export function findSpine(
  level: Level, topological: number[], forward: (a: number, b: number) => boolean, floating: Uint8Array, vertexCount: number, segments: Segments,
): Spine {
  const itemCount = level.items.length;
  const length = Int32Array.from(floating, (_, v) => level.sizes[v] ?? 1); // in nodes
  const before = new Int32Array(floating.length).fill(-1);
  const by = new Int32Array(floating.length).fill(-1); // the net from there
  const netsOf: number[][] = Array.from(floating, () => []);
  level.nets.forEach((net, k) => netsOf[net.source].push(k));
  let end = -1;
  for (const v of topological) {
    if (floating[v]) continue;
    const leaves = v >= itemCount && before[v] >= 0; // through the frame, which counts for more than any length
    const ahead = end < 0 ? 1 : Number(leaves) - Number(end >= itemCount) || length[v] - length[end] || end - v;
    if ((v < itemCount || leaves) && ahead > 0) end = v;
    for (const k of netsOf[v]) {
      for (const w of level.nets[k].targets) {
        const through = length[v] + (level.sizes[w] ?? 1);
        if (floating[w] || through <= length[w] || !forward(v, w)) continue;
        length[w] = through;
        before[w] = v;
        by[w] = k;
      }
    }
  }
  const spine: Spine = { entry: new Int32Array(vertexCount).fill(-1), segments: new Uint8Array(segments.count) };
  if (end < 0) return spine;
  beginInTheMiddle(end, level, length, before, by);
  const into = new Map<number, number>(); // the segments that arrive, by net and vertex
  for (let s = 0; s < segments.count; s++) into.set(segments.net[s] * vertexCount + segments.lower[s], s);
  for (let v = end; v >= 0; v = before[v]) {
    spine.entry[v] = 0;
    for (let at = v; before[v] >= 0 && at !== before[v]; ) {
      const s = into.get(by[v] * vertexCount + at);
      if (s === undefined) break; // a line without bends
      spine.segments[s] = 1;
      if (at === v) spine.entry[v] = segments.lowerSlot[s];
      at = segments.upper[s];
      spine.entry[at] = 0;
    }
  }
  return spine;
}
