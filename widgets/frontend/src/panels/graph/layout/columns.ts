// The rows of a tall level side by side, like columns of a newspaper: each is read downwards, and a line that goes on in
// the next column runs across below its own and up between the two. A level is cut only where the main line goes on and
// hardly anything beside it, for several lines that run round a drawing are worse to follow than a long one is to scroll.
// Among such places dynamic programming chooses: columns of one height, rows of one width together, few lines across.
// Ports stand in the middle of the frame, so that the main line around it stays straight.

import { CLEAR, MOST_LINES, STEP, type Columns, type Part } from "./parts";

/** What is lower than this stays one column. */
const TALL = 900;
/** So many lines may cross a cut, those of a U-Net or of a cell with its state; more are worse to follow than a long column. */
const MOST_ACROSS = 5;
const LEAST_ROOM = (2 / 3) * TALL;
/** Between two columns, without the lines that run there. */
const GAP = 44;
/** Heights that are tried, of the one at which columns without waste would fill the window. */
const TRIES = [0.75, 0.9, 1, 1.15, 1.35];
/** By what share a second line that crosses from column to column makes a drawing seem larger; a third, by four times that. */
const LINE_COST = 0.05;
/** The same of each further column, so that none is made for a few boxes. */
const COLUMN_COST = 0.02;
/** What is lower than these shares of the room is no column, the last one: an input stays above what reads it, a loss below. */
const LEAST_COLUMN = 0.25;
const LEAST_LAST = 0.1;
/** Steps of the search beyond which one height has to do. */
const WORK = 4_000_000;

/** The first row of each column of a level; one column where it is not tall, or where too many lines would cross. */
export function columnStarts(part: Part, height: number, aspect: number): number[] {
  if (height < TALL) return [0];
  const rows = rowsOf(part);
  const open = Array.from(headsOf(part), (head, r) => head > 0 && rows.lines[r - 1] <= MOST_ACROSS);
  const even = Math.max(LEAST_ROOM, Math.sqrt(rows.area / aspect));
  if (height < 1.3 * even || rows.count < 4) return [0];
  const often = (rows.count * rows.count * 1.6 * even) / height < WORK;
  let best = [0];
  let least = height;
  for (const share of often ? TRIES : [1]) {
    const starts = cut(rows, open, Math.max(LEAST_ROOM, share * even));
    const [w, h] = sizeOf(rows, starts);
    const crossing = starts.slice(1).reduce((sum, start) => sum + (rows.lines[start - 1] - 1) ** 2, 0) / Math.max(1, starts.length - 1);
    const size = Math.max(w / aspect, h) * (1 + LINE_COST * crossing) * (1 + COLUMN_COST * (starts.length - 1));
    if (size < least) [best, least] = [starts, size];
  }
  return best;
}

/** The rows between the ports: their extents, and how many lines lead from each into the next. */
interface Rows {
  first: number;
  count: number;
  left: Float64Array;
  right: Float64Array;
  top: Float64Array;
  bottom: Float64Array;
  lines: Int32Array;
  area: number;
}

function rowsOf({ skeleton: { rank, rankCount, segments, level, express }, rowStart, rowEnd, x, w }: Part): Rows {
  const first = level.inPorts.length ? 1 : 0;
  const last = rankCount - (level.outPorts.length ? 1 : 0);
  const left = new Float64Array(rankCount).fill(Infinity);
  const right = new Float64Array(rankCount).fill(-Infinity);
  for (let v = 0; v < rank.length; v++) {
    left[rank[v]] = Math.min(left[rank[v]], x[v] - w[v] / 2);
    right[rank[v]] = Math.max(right[rank[v]], x[v] + w[v] / 2);
  }
  const lines = new Int32Array(rankCount);
  for (const [k, i] of express) for (let r = rank[level.nets[k].source]; r < rank[level.nets[k].targets[i]]; r++) lines[r]++;
  const seen = new Set<number>(); // what fans out of one place crosses as one line
  for (let s = 0; s < segments.count; s++) {
    const line = segments.upper[s] * segments.count + segments.net[s];
    if (!seen.has(line)) lines[rank[segments.upper[s]]]++;
    seen.add(line);
  }
  const inner = <T extends Float64Array | Int32Array>(column: T): T => column.slice(first, last) as T;
  const rows: Rows = { first, count: last - first, left: inner(left), right: inner(right), top: inner(rowStart), bottom: inner(rowEnd), lines: inner(lines), area: 0 };
  for (let r = 0; r < rows.count; r++) rows.area += (rows.right[r] - rows.left[r] + GAP) * stride(rows, r);
  return rows;
}

/** A flag per row between the ports: the main line enters a box there, and another line none but what hangs on to a reader. */
function headsOf({ skeleton: { rank, rankCount, segments, level, spine, floating } }: Part): Uint8Array {
  const net = new Int32Array(rankCount).fill(-1);
  const heads = new Uint8Array(rankCount);
  for (let s = 0; s < segments.count; s++) {
    const lower = segments.lower[s];
    if (!spine?.segments[s] || lower >= level.items.length) continue;
    net[rank[lower]] = segments.net[s];
    heads[rank[lower]] = 1;
  }
  for (let s = 0; s < segments.count; s++) {
    const lower = segments.lower[s];
    if (lower < level.items.length && !floating[lower] && spine!.entry[lower] < 0 && segments.net[s] !== net[rank[lower]]) heads[rank[lower]] = 0;
  }
  return heads.slice(level.inPorts.length ? 1 : 0, rankCount - (level.outPorts.length ? 1 : 0));
}

/** The height of a row with the gap after it. */
function stride({ top, bottom, count }: Rows, r: number): number {
  return (r + 1 < count ? top[r + 1] : bottom[r]) - top[r];
}

/** The first row of each column, of those that are `open`, at the least cost: area that is wasted, lines that cross, height beyond `room`. */
function cut(rows: Rows, open: boolean[], room: number): number[] {
  const { count, left, right, top, bottom, lines } = rows;
  const cost = new Float64Array(count + 1).fill(Infinity);
  const from = new Int32Array(count + 1);
  cost[0] = 0;
  for (let end = 1; end <= count; end++) {
    if (end < count && !open[end]) continue;
    let low = Infinity;
    let high = -Infinity;
    let used = 0;
    const across = end < count ? 2 * LINE_COST * room * (lines[end - 1] - 1) ** 2 : 0;
    for (let start = end - 1; start >= 0; start--) {
      const tall = bottom[end - 1] - top[start];
      if (tall > 1.6 * room && cost[end] < Infinity) break;
      low = Math.min(low, left[start]);
      high = Math.max(high, right[start]);
      used += (right[start] - left[start]) * stride(rows, start);
      if (tall < (end < count ? LEAST_COLUMN : LEAST_LAST) * room) continue;
      const waste = ((high - low) * Math.max(tall, end < count ? room : 0) - used) / room;
      const total = cost[start] + waste + across + GAP + Math.max(0, tall - room);
      if (total < cost[end]) [cost[end], from[end]] = [total, start];
    }
  }
  const starts: number[] = [];
  for (let end = count; end > 0; end = from[end]) starts.unshift(from[end]);
  return starts;
}

function sizeOf({ left, right, top, bottom, count }: Rows, starts: number[]): [number, number] {
  let width = GAP * (starts.length - 1);
  let height = 0;
  starts.forEach((start, k) => {
    const end = starts[k + 1] ?? count;
    let [low, high] = [Infinity, -Infinity];
    for (let r = start; r < end; r++) [low, high] = [Math.min(low, left[r]), Math.max(high, right[r])];
    width += high - low;
    height = Math.max(height, bottom[end - 1] - top[start]);
  });
  return [width, height];
}

/** Moves vertices and rows into their columns, below a title bar as high as `head`, and returns the height of the whole. */
export function layInColumns(part: Part, starts: number[], head: number): number {
  const { first, count, top, bottom } = rowsOf(part);
  const { skeleton: { rank, rankCount }, y, rowStart, rowEnd } = part;
  const of = new Int32Array(rankCount).fill(-1);
  starts.forEach((start, k) => of.fill(k, first + start, first + (starts[k + 1] ?? count)));
  of.fill(starts.length, first + count);
  const columns = spread(part, of, starts.length);
  const room = (from: number): number => (columns.slots.counts[from + 1] ? CLEAR + STEP * Math.min(MOST_LINES, columns.slots.counts[from + 1]) : 0);
  columns.top = head + Math.max(...starts.map((_, k) => room(k - 1)));
  const lift = starts.map((start) => columns.top - top[start]);
  columns.bottom = lift.map((up, k) => bottom[(starts[k + 1] ?? count) - 1] + up);
  const below = Math.max(...columns.bottom.map((end, k) => end + room(k)));
  const total = below + (first + count < rankCount || !head ? 0 : CLEAR);
  for (let v = 0; v < rank.length; v++) y[v] += lift[of[rank[v]]] ?? 0;
  for (let r = first; r < first + count; r++) {
    rowStart[r] += lift[of[r]];
    rowEnd[r] += lift[of[r]];
  }
  rowStart.fill(total, first + count);
  rowEnd.fill(total, first + count);
  const { level, realCount } = part.skeleton;
  y.fill(0, level.items.length, level.items.length + level.inPorts.length);
  y.fill(total, level.items.length + level.inPorts.length, realCount);
  return total;
}

/** Lays a lane in the columns of the level beside it; `rows` are the rows of that level, a lane's ports stand beyond them. */
export function followColumns(lane: Part, { of, top, bottom }: Columns, rows: number[]): void {
  const last = bottom.length;
  const columns = spread(lane, Int32Array.from(rows, (row) => (row < 0 ? -1 : row >= of.length ? last : of[row])), last);
  Object.assign(columns, { top, bottom });
}

/** Moves each column beside the one before, and ports to the middle. */
function spread(part: Part, of: Int32Array, count: number): Columns {
  const { skeleton: { rank, level, realCount, spine }, x, w } = part;
  const slots = slotsOf(part, of);
  const low = new Float64Array(count).fill(Infinity);
  const high = new Float64Array(count).fill(-Infinity);
  for (let v = 0; v < rank.length; v++) {
    const k = of[rank[v]];
    if (k < 0 || k === count) continue;
    low[k] = Math.min(low[k], x[v] - w[v] / 2);
    high[k] = Math.max(high[k], x[v] + w[v] / 2);
  }
  const gutter: number[] = [];
  const shift: number[] = [];
  let at = 0;
  for (let k = 0; k < count; k++) {
    const empty = high[k] < low[k]; // of a lane, where nothing has a gradient
    shift.push(empty ? 0 : at - low[k]);
    at += empty ? 0 : high[k] - low[k];
    gutter.push(at + GAP / 2);
    if (k + 1 < count) at += GAP + STEP * Math.min(MOST_LINES, slots.counts[(part.up ? k + 1 : k) + 1]);
  }
  part.width = at;
  for (let v = 0; v < rank.length; v++) x[v] += shift[of[rank[v]]] ?? 0;
  const inEnd = level.items.length + level.inPorts.length;
  for (const [begin, end] of [[level.items.length, inEnd], [inEnd, realCount]]) {
    let main = begin;
    for (let v = begin; v < end; v++) if (spine && spine.entry[v] >= 0) main = v;
    const move = at / 2 - x[main];
    for (let v = begin; v < end; v++) x[v] = Math.min(at, Math.max(0, x[v] + move));
  }
  return (part.columns = { of, slots, top: 0, bottom: [], gutter });
}

/** Which lines lead out of each column, counted from the right, so that they run in parallel. */
function slotsOf({ skeleton: { segments, rank }, x }: Part, of: Int32Array): Columns["slots"] {
  const counts = new Array<number>(of.length + 2).fill(0);
  const leaving: number[] = [];
  for (let s = 0; s < segments.count; s++) if (of[rank[segments.upper[s]]] !== of[rank[segments.lower[s]]]) leaving.push(s);
  leaving.sort((a, b) => x[segments.upper[b]] - x[segments.upper[a]] || a - b);
  const slots = new Map<string, number>();
  for (const s of leaving) {
    const line = `${segments.upper[s]} ${segments.net[s]}`;
    if (!slots.has(line)) slots.set(line, counts[of[rank[segments.upper[s]]] + 1]++);
  }
  return { counts, of: slots };
}
