// The lines of one level, piece by piece: curves between neighbouring rows, buses where many lead from or to one place,
// and the way from the end of a column to the beginning of the next.

import type { GraphModel } from "../model/model";
import { CLEAR, MOST_LINES, STEP, type Part } from "./parts";
import { routes } from "./routes";
import { PieceFlag } from "./scene";
import { BUS } from "./wide";

/** One piece, from the part's left edge and the block's top. */
export interface Piece {
  upper: number;
  lower: number;
  tensor: number;
  weight: number;
  flag: number;
  points: [number, number, number, number, number, number];
  /** Where a piece that runs back passes what is between its ends. */
  side?: number;
  /** The first or the second of two that meet where a line turns from one column to the next. */
  half?: 1 | 2;
}

type Add = (points: Piece["points"], flag: number, of?: Pick<Piece, "side" | "half">) => void;

export function linesOfPart(model: GraphModel, part: Part, put: (piece: Piece) => void): void {
  const { skeleton, rowStart, rowEnd, up, inner, x, y, h, columns } = part;
  const { level, segments, rank, realCount, carried } = skeleton;
  const sign = up ? -1 : 1;
  const later = up ? Math.min : Math.max;
  const sooner = up ? Math.max : Math.min;
  const busAt = buses(part);
  let backs = 0;
  const piece = (upper: number, lower: number, net: number, position: number, flag: number, bus?: number): void => {
    const y0 = y[upper] + (sign * h[upper]) / 2;
    const y3 = y[lower] - (sign * h[lower]) / 2;
    const against = (flag & PieceFlag.Feedback) > 0;
    const y1 = against ? y0 : later(y0, rowEnd[rank[upper]]);
    const y2 = against ? y3 : sooner(y3, rowStart[rank[lower]]);
    const arrow = lower < level.items.length && !inner[lower] ? PieceFlag.Arrow : 0;
    // A bend has no height of its own: the piece that ends in it also runs through its row.
    const first = upper >= realCount ? y1 : y0;
    const last = lower >= realCount ? rowEnd[rank[lower]] : y3;
    const lines = routes(model, part, upper, lower, net, position);
    if (!flag && lines.length >= BUS) bus ??= 1 / 2;
    for (const { tensor, weight, start, stop } of lines) {
      const looks = flag | (up ? PieceFlag.Up : 0) | (model.layer[model.nodeOf[tensor]] > 0 ? PieceFlag.Cotangent : 0);
      const [x0, x1] = [x[upper] + start, x[lower] + stop];
      const add: Add = (points, more, of) => put({ upper, lower, tensor, weight: Math.max(weight, carried.get(upper) ?? 0), flag: looks | more, points, ...of });
      const from = columns && !flag ? columns.of[rank[upper]] : 0;
      const to = columns && !flag ? columns.of[rank[lower]] : 0;
      if (from !== to) joint(part, from, to, `${upper} ${net}`, [x0, first, x1, last], arrow, add);
      else if (bus !== undefined) add([x0, first, y1 + (y2 - y1) * bus, x1, y1 + (y2 - y1) * bus, last], arrow | PieceFlag.Bus);
      else add([x0, first, y1, x1, y2, last], arrow, against && !up ? { side: beside(part, (x[upper] + x[lower]) / 2, backs++) } : undefined);
    }
  };
  for (let s = 0; s < segments.count; s++) {
    piece(segments.upper[s], segments.lower[s], segments.net[s], segments.lowerSlot[s], 0, busAt(s));
  }
  for (const [list, flag] of [[skeleton.express, PieceFlag.Express], [skeleton.feedback, PieceFlag.Feedback]] as const) {
    for (const [net, k] of list) piece(level.nets[net].source, level.nets[net].targets[k], net, level.nets[net].positions[k], flag);
  }
}

/**
 * Down out of a column, across below it, up beside it and down into the next; from and to ports only across. Lines of a
 * lane take the same way back, between those of the level beside it.
 */
function joint(
  { columns, up, rowEnd, skeleton: { rankCount } }: Part, from: number, to: number, line: string,
  [x0, y0, x1, y1]: [number, number, number, number], arrow: number, add: Add,
): void {
  const { slots, top, bottom, gutter } = columns!;
  const count = slots.counts[from + 1];
  const at = (slot: number): number => (up ? STEP / 2 : 0) + (STEP * slot * Math.min(MOST_LINES, count)) / count;
  const slot = slots.of.get(line)!;
  const [near, far] = [CLEAR / 2 + at(slot), CLEAR / 2 + at(count - 1 - slot)];
  const first = Math.min(from, to);
  if (first < 0) {
    add([x0, y0, top - far, x1, top - far, y1], arrow | PieceFlag.Bus);
    return;
  }
  if (first + 1 === bottom.length) {
    const end = up ? y0 : rowEnd[rankCount - 1];
    add([x0, y0, end - far, x1, end - far, y1], arrow | PieceFlag.Bus);
    return;
  }
  const aside = gutter[first] + at(slot);
  const [leave, arrive] = up ? [top - near, bottom[first] + far] : [bottom[first] + near, top - far];
  const middle = (leave + arrive) / 2;
  add([x0, y0, leave, aside, leave, middle], PieceFlag.Bus, { half: 1 });
  add([aside, middle, arrive, x1, arrive, y1], arrow | PieceFlag.Bus, { half: 2 });
}

/**
 * Of each segment of a bus, where in the gap between its rows it runs: what begins further left runs higher. A line with
 * many ends in many rows is a bus, too.
 */
function buses({ skeleton: { segments, rank, vertexCount, level }, x }: Part): (segment: number) => number | undefined {
  const { count, upper, lower, net } = segments;
  const out = new Int32Array(vertexCount);
  const into = new Int32Array(vertexCount);
  for (let s = 0; s < count; s++) {
    out[upper[s]]++;
    into[lower[s]]++;
  }
  const hubOf = (s: number): number => {
    if (out[upper[s]] >= BUS || into[lower[s]] >= BUS) return out[upper[s]] >= into[lower[s]] ? upper[s] : lower[s];
    return level.nets[net[s]].targets.length >= BUS && x[upper[s]] !== x[lower[s]] ? upper[s] : -1;
  };
  const hubs = new Map<number, Set<number>>(); // by the row above the gap
  for (let s = 0; s < count; s++) {
    const hub = hubOf(s);
    if (hub < 0) continue;
    const known = hubs.get(rank[upper[s]]);
    if (known) known.add(hub);
    else hubs.set(rank[upper[s]], new Set([hub]));
  }
  const shares = new Map<number, Map<number, number>>();
  for (const [row, set] of hubs) {
    const list = [...set].sort((a, b) => x[a] - x[b] || a - b);
    shares.set(row, new Map(list.map((hub, k) => [hub, (k + 1) / (list.length + 1)])));
  }
  return (s) => shares.get(rank[upper[s]])?.get(hubOf(s));
}

/** To the left or right of all that stands in a part, whichever is nearer; lines stand side by side there, as far as there is room. */
function beside({ width }: Part, x: number, before: number): number {
  const gap = 7 + 4 * (before % 3);
  return x < width / 2 ? -gap : width + gap;
}
