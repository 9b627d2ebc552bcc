// Horizontal places, after Brandes and Köpf (2001) with the block graph compaction used since.
//
// Vertices are chained into vertical blocks along median neighbours, lines through bends first; each block is
// placed as far to one side as order and spacing allow. The four combinations of up or down and left or right
// are aligned and the mean of the two middle values is taken, which keeps order and spacing. Lines may start and
// end off-centre: a block remembers how far each vertex is shifted against its root, so that ports line up.

import { columnsOfBlocks } from "./blocks";
import type { Ordering } from "./order";
import type { Skeleton } from "./skeleton";

export interface Extents {
  /** Half of the room a vertex takes to either side, spacing included. */
  half: Float64Array;
  /** Where each segment leaves and arrives, relative to the vertices' centres. */
  upperOffset: Float64Array;
  lowerOffset: Float64Array;
}

interface Links {
  first: Int32Array;
  far: Int32Array;
  segment: Int32Array;
}

export function placeHorizontally(skeleton: Skeleton, ordering: Ordering, extents: Extents): Float64Array {
  const n = skeleton.vertexCount;
  const up = links(skeleton, ordering, false);
  const down = links(skeleton, ordering, true);
  const conflicts = markConflicts(skeleton, ordering, up);
  const side = markSideLines(skeleton, up);
  if (skeleton.spine) clearSpine(skeleton, ordering, conflicts, side);
  const [above, below] = columnsOfBlocks(skeleton, ordering);
  const toward = { top: without(up, side, above), bottom: without(down, side, below) };
  const candidates: Float64Array[] = [];
  for (const fromTop of [true, false]) {
    for (const leftwards of [true, false]) {
      const run = new Alignment(skeleton, ordering, extents, conflicts, fromTop, leftwards);
      candidates.push(run.place(fromTop ? toward.top : toward.bottom));
    }
  }
  alignToNarrowest(candidates, extents.half);
  const x = new Float64Array(n);
  const four = new Float64Array(4);
  for (let v = 0; v < n; v++) {
    for (let c = 0; c < 4; c++) four[c] = candidates[c][v];
    four.sort();
    x[v] = (four[1] + four[2]) / 2;
  }
  return x;
}

/** Neighbours of every vertex in one direction, sorted by their place in the row. */
function links(skeleton: Skeleton, { position }: Ordering, downwards: boolean): Links {
  const { vertexCount, segments } = skeleton;
  const near = downwards ? segments.upper : segments.lower;
  const other = downwards ? segments.lower : segments.upper;
  const first = new Int32Array(vertexCount + 1);
  for (let s = 0; s < segments.count; s++) first[near[s] + 1]++;
  for (let v = 0; v < vertexCount; v++) first[v + 1] += first[v];
  const next = first.slice();
  const segment = new Int32Array(segments.count);
  for (let s = 0; s < segments.count; s++) segment[next[near[s]]++] = s;
  for (let v = 0; v < vertexCount; v++) {
    if (first[v + 1] - first[v] > 1) {
      segment.subarray(first[v], first[v + 1]).sort((a, b) => position[other[a]] - position[other[b]] || a - b);
    }
  }
  return { first, far: Int32Array.from(segment, (s) => other[s]), segment };
}

/** Lines that cross a line between two bends may not pull on anything: long lines stay straight. */
function markConflicts(skeleton: Skeleton, { rows, position }: Ordering, up: Links): Uint8Array {
  const { realCount, segments } = skeleton;
  const marked = new Uint8Array(segments.count);
  const innerAbove = (v: number): number => {
    if (v < realCount) return -1;
    const above = up.far[up.first[v]];
    return above >= realCount ? above : -1;
  };
  for (let r = 1; r < rows.length; r++) {
    const row = rows[r];
    let left = 0;
    let scanned = 0;
    for (let i = 0; i < row.length; i++) {
      const above = innerAbove(row[i]);
      if (above < 0 && i !== row.length - 1) continue;
      const right = above < 0 ? rows[r - 1].length : position[above];
      for (; scanned <= i; scanned++) {
        const v = row[scanned];
        for (let k = up.first[v]; k < up.first[v + 1]; k++) {
          const place = position[up.far[k]];
          const inner = v >= realCount && up.far[k] >= realCount;
          if ((place < left || place > right) && !inner) marked[up.segment[k]] = 1;
        }
      }
      left = right;
    }
  }
  return marked;
}

/**
 * A parameter and a node that is computed from something else as well do not pull on each other: the main line stays
 * straight. Nor do a line that goes on to further rows and what it reaches on the way, or leads it to a block of rows.
 */
function markSideLines({ segments, floating, realCount, vertexCount, aside, block }: Skeleton, up: Links): Uint8Array {
  if (aside) return aside.slice();
  const isParameter = (v: number): boolean => v < realCount && floating[v] === 1;
  const side = new Uint8Array(segments.count);
  const goesOn = new Uint8Array(vertexCount);
  for (let s = 0; s < segments.count; s++) if (segments.upper[s] >= realCount && segments.lower[s] >= realCount) goesOn[segments.upper[s]] = 1;
  for (let s = 0; s < segments.count; s++) {
    const v = segments.lower[s];
    const blocks = (segments.upper[s] >= realCount && block?.[v]) || (v >= realCount && block?.[segments.upper[s]]);
    if ((goesOn[segments.upper[s]] && v < realCount) || blocks) side[s] = 1;
    if (!isParameter(segments.upper[s])) continue;
    for (let k = up.first[v]; k < up.first[v + 1]; k++) if (!isParameter(up.far[k])) side[s] = 1;
  }
  return side;
}

/** Segments of the spine lose no conflict, those that cross it do, and others at its vertices are side lines. */
function clearSpine({ spine, segments, rank, rankCount }: Skeleton, { position }: Ordering, conflicts: Uint8Array, side: Uint8Array): void {
  const { entry, segments: straight } = spine!;
  const { count, upper, lower } = segments;
  const inRow = new Int32Array(rankCount).fill(-1); // by the row of the upper end
  for (let s = 0; s < count; s++) if (straight[s]) inRow[rank[upper[s]]] = s;
  for (let s = 0; s < count; s++) {
    if (straight[s]) {
      conflicts[s] = side[s] = 0;
      continue;
    }
    if (entry[upper[s]] >= 0 || entry[lower[s]] >= 0) side[s] = 1;
    const t = inRow[rank[upper[s]]];
    if (t >= 0 && (position[upper[s]] - position[upper[t]]) * (position[lower[s]] - position[lower[t]]) < 0) conflicts[s] = 1;
  }
}

/** Links that are not dropped; in a block of rows only that to the `next` one, which is no segment. */
function without(all: Links, dropped: Uint8Array, next: Int32Array): Links {
  const first = new Int32Array(all.first.length);
  const far: number[] = [];
  const segment: number[] = [];
  for (let v = 0; v + 1 < first.length; v++) {
    if (next[v] >= 0) {
      far.push(next[v]);
      segment.push(-1);
    }
    for (let k = all.first[v]; k < all.first[v + 1]; k++) {
      if (next[v] >= 0 || dropped[all.segment[k]]) continue;
      far.push(all.far[k]);
      segment.push(all.segment[k]);
    }
    first[v + 1] = far.length;
  }
  return { first, far: Int32Array.from(far), segment: Int32Array.from(segment) };
}

class Alignment {
  private readonly root: Int32Array;
  private readonly align: Int32Array;
  private readonly shift: Float64Array;
  private readonly sign: number;

  constructor(
    private readonly skeleton: Skeleton,
    private readonly ordering: Ordering,
    private readonly extents: Extents,
    private readonly conflicts: Uint8Array,
    private readonly fromTop: boolean,
    private readonly leftwards: boolean,
  ) {
    const n = skeleton.vertexCount;
    this.root = Int32Array.from({ length: n }, (_, v) => v);
    this.align = this.root.slice();
    this.shift = new Float64Array(n);
    this.sign = leftwards ? 1 : -1;
  }

  place(toward: Links): Float64Array {
    this.chain(toward);
    return this.compact();
  }

  private chain(toward: Links): void {
    const { root, align, shift, ordering, extents, sign } = this;
    const { rows, position } = ordering;
    const { upperOffset, lowerOffset } = extents;
    for (let k = 0; k < rows.length; k++) {
      const row = rows[this.fromTop ? k : rows.length - 1 - k];
      let reached = -Infinity;
      for (let i = 0; i < row.length; i++) {
        const v = row[this.leftwards ? i : row.length - 1 - i];
        const begin = toward.first[v];
        const degree = toward.first[v + 1] - begin;
        if (!degree) continue;
        const low = Math.floor((degree - 1) / 2);
        const high = Math.ceil((degree - 1) / 2);
        for (let step = 0; step <= high - low; step++) {
          const at = begin + (this.leftwards ? low + step : high - step);
          const u = toward.far[at];
          const s = toward.segment[at];
          if (align[v] !== v || this.conflicts[s] || sign * position[u] <= reached) continue;
          align[u] = v;
          root[v] = root[u];
          align[v] = root[u];
          const offset = s < 0 ? 0 : this.fromTop ? upperOffset[s] - lowerOffset[s] : lowerOffset[s] - upperOffset[s];
          shift[v] = shift[u] + sign * offset;
          reached = sign * position[u];
        }
      }
    }
  }

  /** Longest paths over the blocks from one side, then every block moves as close to its far neighbours as it can. */
  private compact(): Float64Array {
    const { root, shift, sign, skeleton, ordering } = this;
    const { half } = this.extents;
    const n = skeleton.vertexCount;
    const from: number[] = [];
    const to: number[] = [];
    const room: number[] = [];
    for (const row of ordering.rows) {
      for (let i = 1; i < row.length; i++) {
        const a = row[this.leftwards ? i - 1 : row.length - i];
        const b = row[this.leftwards ? i : row.length - 1 - i];
        from.push(root[a]);
        to.push(root[b]);
        room.push(shift[a] + half[a] + half[b] - shift[b]);
      }
    }
    const first = new Int32Array(n + 1);
    const waiting = new Int32Array(n);
    for (let e = 0; e < from.length; e++) {
      first[from[e] + 1]++;
      waiting[to[e]]++;
    }
    for (let v = 0; v < n; v++) first[v + 1] += first[v];
    const next = first.slice();
    const edges = new Int32Array(from.length);
    for (let e = 0; e < from.length; e++) edges[next[from[e]]++] = e;

    const queue: number[] = [];
    for (let v = 0; v < n; v++) if (root[v] === v && !waiting[v]) queue.push(v);
    const x = new Float64Array(n);
    for (let head = 0; head < queue.length; head++) {
      const v = queue[head];
      for (let k = first[v]; k < first[v + 1]; k++) {
        const e = edges[k];
        x[to[e]] = Math.max(x[to[e]], x[v] + room[e]);
        if (--waiting[to[e]] === 0) queue.push(to[e]);
      }
    }
    for (let head = queue.length - 1; head >= 0; head--) {
      const v = queue[head];
      let limit = Infinity;
      for (let k = first[v]; k < first[v + 1]; k++) limit = Math.min(limit, x[to[edges[k]]] - room[edges[k]]);
      if (limit < Infinity) x[v] = Math.max(x[v], limit);
    }
    const out = new Float64Array(n);
    for (let v = 0; v < n; v++) out[v] = sign * (x[root[v]] + shift[v]);
    return out;
  }
}

/** Left-aligned candidates share the left edge of the narrowest one, right-aligned ones its right edge. */
function alignToNarrowest(candidates: Float64Array[], half: Float64Array): void {
  const bounds = candidates.map((x) => {
    let low = Infinity;
    let high = -Infinity;
    for (let v = 0; v < x.length; v++) {
      low = Math.min(low, x[v] - half[v]);
      high = Math.max(high, x[v] + half[v]);
    }
    return { low, high };
  });
  let narrowest = bounds[0];
  for (const b of bounds) if (b.high - b.low < narrowest.high - narrowest.low) narrowest = b;
  candidates.forEach((x, c) => {
    const delta = c % 2 === 0 ? narrowest.low - bounds[c].low : narrowest.high - bounds[c].high;
    for (let v = 0; v < x.length; v++) x[v] += delta;
  });
}
