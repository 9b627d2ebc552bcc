// The order of vertices within each row, chosen to cross few lines.
//
// Barycentre sweeps down and up move each vertex towards its neighbours, then neighbouring vertices are swapped
// while that removes crossings. Ports count: lines that reach a node are ordered by argument position, so that
// `a` stands left of `b` above `a - b` where the drawing allows it. Several starts, the best one wins; everything
// is deterministic and ties keep creation order.

import type { Skeleton } from "./skeleton";

/** Positions are scaled by this to leave room for port numbers. */
const PORTS = 16;
/** More than any scaled position, for keys of two parts. */
const SPAN = 2 ** 40;
/** Up to this many lines between two rows, comparing all of them is fastest. */
const FEW = 48;
/** Work is bounded by the number of segments looked at, not by time, so that results never depend on the machine. */
const WORK = 6_000_000;
const MOST_STARTS = 40;
/** Starts without a better result after which the search ends. */
const PATIENCE = 12;

interface Adjacency {
  /** Neighbours of v are `list[first[v]] .. list[first[v + 1] - 1]`, with the port there and the port at v. */
  first: Int32Array;
  list: Int32Array;
  farPort: Int32Array;
  nearPort: Int32Array;
}

function adjacency(skeleton: Skeleton, downwards: boolean): Adjacency {
  const { vertexCount, segments } = skeleton;
  const near = downwards ? segments.upper : segments.lower;
  const far = downwards ? segments.lower : segments.upper;
  const nearSlot = downwards ? segments.upperSlot : segments.lowerSlot;
  const farSlot = downwards ? segments.lowerSlot : segments.upperSlot;
  const first = new Int32Array(vertexCount + 1);
  for (let s = 0; s < segments.count; s++) first[near[s] + 1]++;
  for (let v = 0; v < vertexCount; v++) first[v + 1] += first[v];
  const next = first.slice();
  const list = new Int32Array(segments.count);
  const farPort = new Int32Array(segments.count);
  const nearPort = new Int32Array(segments.count);
  for (let s = 0; s < segments.count; s++) {
    const at = next[near[s]]++;
    list[at] = far[s];
    farPort[at] = Math.min(farSlot[s], PORTS - 1);
    nearPort[at] = Math.min(nearSlot[s], PORTS - 1);
  }
  return { first, list, farPort, nearPort };
}

export class Ordering {
  readonly rows: Int32Array[];
  readonly position: Int32Array;
  crossings = 0;

  constructor(rows: Int32Array[], vertexCount: number) {
    this.rows = rows;
    this.position = new Int32Array(vertexCount);
    this.index();
  }

  index(): void {
    for (const row of this.rows) for (let i = 0; i < row.length; i++) this.position[row[i]] = i;
  }

  copy(): Ordering {
    const other = new Ordering(this.rows.map((row) => row.slice()), this.position.length);
    other.crossings = this.crossings;
    return other;
  }
}

/** Where vertices stand at first, and those that keep this order among themselves. */
export interface Guide {
  place: Float64Array;
  fixed: Uint8Array;
}

/** The order that follows a guide; only what it leaves free moves. */
export function orderAlong(skeleton: Skeleton, guide: Guide): Ordering {
  const search = new Search(skeleton, guide.fixed);
  const start = search.rowsBy(guide.place);
  return search.improve(start, Math.max(2, Math.min(24, Math.floor(WORK / (1 + 12 * skeleton.segments.count)))));
}

export function orderRows(skeleton: Skeleton): Ordering {
  const search = new Search(skeleton);
  const rounds = Math.max(2, Math.min(24, Math.floor(WORK / (1 + 12 * skeleton.segments.count))));
  const starts = Math.max(1, Math.min(MOST_STARTS, Math.floor(WORK / (1 + 40 * rounds * skeleton.segments.count))));
  let best = search.improve(search.start(0), rounds);
  for (let k = 1, idle = 0; k < starts && idle < PATIENCE && best.crossings > 0; k++, idle++) {
    const found = search.improve(search.start(k), rounds);
    if (found.crossings < best.crossings) {
      best = found;
      idle = 0;
    }
  }
  return best;
}

class Search {
  private readonly up: Adjacency;
  private readonly down: Adjacency;
  private readonly key: Float64Array;
  // Room for what is counted, over and over.
  private readonly upKeys: Int32Array;
  private readonly downKeys: Int32Array;
  private readonly ends: Float64Array;
  private tree = new Int32Array(0);

  constructor(private readonly skeleton: Skeleton, private readonly fixed?: Uint8Array) {
    this.up = adjacency(skeleton, false);
    this.down = adjacency(skeleton, true);
    this.key = new Float64Array(skeleton.vertexCount);
    this.upKeys = new Int32Array(skeleton.segments.count);
    this.downKeys = new Int32Array(skeleton.segments.count);
    this.ends = new Float64Array(skeleton.segments.count);
  }

  /** The k-th start: creation order, two depth-first walks, then shuffles that are the same on every run. */
  start(k: number): Ordering {
    if (k === 0) return this.rowsBy(this.byCreation());
    return this.rowsBy(k <= 2 ? this.byDepthFirst(k === 1) : this.shuffled(k));
  }

  /** A bend stands where its source does. */
  private byCreation(): Float64Array {
    const { vertexCount, realCount } = this.skeleton;
    const place = new Float64Array(vertexCount);
    for (let v = 0; v < vertexCount; v++) place[v] = v < realCount ? v : place[this.up.list[this.up.first[v]]];
    return place;
  }

  /** A walk along lines in both directions, begun at the top or at the bottom. */
  private byDepthFirst(fromTop: boolean): Float64Array {
    const { vertexCount } = this.skeleton;
    const [ahead, behind] = fromTop ? [this.down, this.up] : [this.up, this.down];
    const seen = new Uint8Array(vertexCount);
    const visit = new Float64Array(vertexCount);
    let clock = 0;
    for (let v = 0; v < vertexCount; v++) {
      if (seen[v] || behind.first[v + 1] > behind.first[v]) continue;
      const pending = [v];
      for (let at = pending.pop(); at !== undefined; at = pending.pop()) {
        if (seen[at]) continue;
        seen[at] = 1;
        visit[at] = clock++;
        for (const side of [behind, ahead]) {
          for (let k = side.first[at + 1] - 1; k >= side.first[at]; k--) if (!seen[side.list[k]]) pending.push(side.list[k]);
        }
      }
    }
    return visit;
  }

  private shuffled(seed: number): Float64Array {
    let state = Math.imul(seed, 0x9e3779b1);
    return Float64Array.from({ length: this.skeleton.vertexCount }, () => {
      state = (Math.imul(state, 1664525) + 1013904223) | 0;
      return state >>> 8;
    });
  }

  rowsBy(value: Float64Array): Ordering {
    const { vertexCount, rank, rankCount } = this.skeleton;
    const rows: number[][] = Array.from({ length: rankCount }, () => []);
    for (let v = 0; v < vertexCount; v++) rows[rank[v]].push(v);
    for (const row of rows) row.sort((a, b) => value[a] - value[b] || a - b);
    return new Ordering(rows.map((row) => Int32Array.from(row)), vertexCount);
  }

  improve(start: Ordering, rounds: number): Ordering {
    const state = start;
    state.crossings = this.countCrossings(state);
    let best = state.copy();
    for (let round = 0, idle = 0; round < rounds && idle < 5 && best.crossings > 0; round++) {
      this.sweep(state, round % 2 === 0);
      this.transpose(state, round % 4 >= 2);
      state.crossings = this.countCrossings(state);
      if (state.crossings < best.crossings) {
        best = state.copy();
        idle = 0;
      } else idle++;
    }
    return best;
  }

  /** Sort every row by the mean port position of its neighbours in the row before; the others keep their place. */
  private sweep(state: Ordering, downwards: boolean): void {
    const side = downwards ? this.up : this.down;
    const { rows, position } = state;
    const { key } = this;
    for (let k = 1; k < rows.length; k++) {
      const row = rows[downwards ? k : rows.length - 1 - k];
      const movable: number[] = [];
      for (const v of row) {
        const begin = side.first[v];
        const end = side.first[v + 1];
        if (begin === end) continue;
        let sum = 0;
        for (let e = begin; e < end; e++) sum += position[side.list[e]] * PORTS + side.farPort[e];
        key[v] = sum / (end - begin);
        movable.push(v);
      }
      movable.sort((a, b) => key[a] - key[b] || position[a] - position[b]);
      let next = 0;
      for (let i = 0; i < row.length; i++) {
        const v = row[i];
        if (side.first[v] !== side.first[v + 1]) row[i] = movable[next++];
      }
      if (this.fixed) this.restore(row, position);
      for (let i = 0; i < row.length; i++) position[row[i]] = i;
    }
  }

  /** Puts the fixed ones of a row back into the order in which they stood. */
  private restore(row: Int32Array, position: Int32Array): void {
    const fixed = row.filter((v) => this.fixed![v]).sort((a, b) => position[a] - position[b]);
    let next = 0;
    for (let i = 0; i < row.length; i++) if (this.fixed![row[i]]) row[i] = fixed[next++];
  }

  /**
   * Swaps neighbours in a row while that removes crossings on both sides of it together; on a `neutral` round the
   * first pass also swaps where nothing changes, which leads out of flat valleys.
   */
  private transpose(state: Ordering, neutral: boolean): void {
    const { up, down, upKeys, downKeys, fixed } = this;
    for (let pass = 0; pass < 4; pass++) {
      let swapped = false;
      for (const row of state.rows) {
        if (row.length < 2) continue;
        this.sortKeys(row, up, upKeys, state.position);
        this.sortKeys(row, down, downKeys, state.position);
        for (let i = 0; i + 1 < row.length; i++) {
          const v = row[i];
          const w = row[i + 1];
          if (fixed?.[v] && fixed[w]) continue;
          const saved = gain(upKeys, up.first, v, w) + gain(downKeys, down.first, v, w);
          if (saved < 0 || (saved === 0 && !(neutral && pass === 0))) continue;
          row[i] = w;
          row[i + 1] = v;
          swapped = true;
        }
        for (let i = 0; i < row.length; i++) state.position[row[i]] = i;
      }
      if (!swapped) return;
    }
  }

  /** Where the lines of each vertex of a row end, in ascending order: at the places that the adjacency gives its lines. */
  private sortKeys(row: Int32Array, { first, list, farPort }: Adjacency, keys: Int32Array, position: Int32Array): void {
    for (let i = 0; i < row.length; i++) {
      const begin = first[row[i]];
      const end = first[row[i] + 1];
      for (let e = begin; e < end; e++) keys[e] = position[list[e]] * PORTS + farPort[e];
      sortRange(keys, begin, end);
    }
  }

  countCrossings(state: Ordering): number {
    let total = 0;
    for (let r = 0; r + 1 < state.rows.length; r++) {
      total += this.crossingsBelow(state.rows[r], state.rows[r + 1].length, state.position);
    }
    return total;
  }

  /** Inversions between the ports of two rows: counted directly where there are few, else with a Fenwick tree. */
  private crossingsBelow(row: Int32Array, width: number, position: Int32Array): number {
    const { first, list, farPort, nearPort } = this.down;
    const { ends } = this;
    let count = 0;
    for (let i = 0; i < row.length; i++) {
      const begin = count;
      // Lines of one vertex in the order of their ports: those of a port cross none of their own.
      for (let e = first[row[i]]; e < first[row[i] + 1]; e++) ends[count++] = nearPort[e] * SPAN + position[list[e]] * PORTS + farPort[e];
      sortRange(ends, begin, count);
      for (let k = begin; k < count; k++) ends[k] %= SPAN;
    }
    let total = 0;
    if (count <= FEW) {
      for (let i = 1; i < count; i++) for (let k = 0; k < i; k++) if (ends[k] > ends[i]) total++;
      return total;
    }
    const size = width * PORTS + 1;
    if (this.tree.length < size) this.tree = new Int32Array(2 * size);
    const tree = this.tree.fill(0, 0, size);
    for (let seen = 0; seen < count; seen++) {
      let notRight = 0;
      for (let i = ends[seen] + 1; i > 0; i -= i & -i) notRight += tree[i];
      total += seen - notRight;
      for (let i = ends[seen] + 1; i < size; i += i & -i) tree[i]++;
    }
    return total;
  }
}

/** Sorts a stretch of numbers, most of which are a few long. */
function sortRange(values: Int32Array | Float64Array, begin: number, end: number): void {
  if (end - begin > 24) {
    values.subarray(begin, end).sort();
    return;
  }
  for (let i = begin + 1; i < end; i++) {
    const value = values[i];
    let k = i;
    for (; k > begin && values[k - 1] > value; k--) values[k] = values[k - 1];
    values[k] = value;
  }
}

/** Crossings with `v` left of `w` less those with `w` left of `v`, for sorted keys. */
function gain(keys: Int32Array, first: Int32Array, v: number, w: number): number {
  const wBegin = first[w];
  const wEnd = first[w + 1];
  let total = 0;
  let smaller = wBegin;
  let notLarger = wBegin;
  for (let i = first[v]; i < first[v + 1]; i++) {
    while (smaller < wEnd && keys[smaller] < keys[i]) smaller++;
    while (notLarger < wEnd && keys[notLarger] <= keys[i]) notLarger++;
    total += smaller - wBegin - (wEnd - notLarger);
  }
  return total;
}
