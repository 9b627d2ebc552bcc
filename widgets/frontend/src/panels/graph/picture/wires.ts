// Lines as they are drawn: pieces joined at bends and ports, from item to item.

import { PIECE, PieceFlag, type Scene } from "../layout/scene";
import type { Focus } from "../model/trace";

export class Wires {
  private joints: { leaving: Map<number, number[]>; arriving: Map<number, number[]> } | undefined;

  constructor(private readonly scene: Scene) {}

  /** Pieces of the lines that start at a flagged item and end at one. */
  among(items: Uint8Array): Set<number> {
    const { pieceFrom, pieceTo } = this.scene;
    const starts: number[] = [];
    const ends: number[] = [];
    for (let p = 0; p < pieceFrom.length; p++) {
      if (pieceFrom[p] >= 0 && items[pieceFrom[p]]) starts.push(p);
      if (pieceTo[p] >= 0 && items[pieceTo[p]]) ends.push(p);
    }
    const back = this.follow(ends, pieceFrom, "arriving");
    return new Set([...this.follow(starts, pieceTo, "leaving")].filter((p) => back.has(p)));
  }

  /** The line that a piece belongs to: back to the item it comes from and on to the items it reaches. */
  route(piece: number): { pieces: Set<number>; from: number[]; to: number[] } {
    const { pieceFrom, pieceTo } = this.scene;
    const back = this.follow([piece], pieceFrom, "arriving");
    const on = this.follow([piece], pieceTo, "leaving");
    const ends = (pieces: Set<number>, joints: Int32Array): number[] => [...new Set([...pieces].map((p) => joints[p]).filter((item) => item >= 0))];
    return { pieces: new Set([...back, ...on]), from: ends(back, pieceFrom), to: ends(on, pieceTo) };
  }

  focus(items: Uint8Array): Focus {
    return { items, pieces: this.among(items) };
  }

  /** Goes from piece to piece through bends and ports, and stops at items. */
  private follow(pieces: number[], far: Int32Array, side: "leaving" | "arriving"): Set<number> {
    // Built when the first line is followed: a large drawing opens sooner without.
    this.joints ??= { leaving: grouped(this.scene.pieceFrom), arriving: grouped(this.scene.pieceTo) };
    const next = this.joints[side];
    const found = new Set(pieces);
    const pending = [...pieces];
    for (let p = pending.pop(); p !== undefined; p = pending.pop()) {
      if (far[p] >= 0) continue;
      for (const q of next.get(far[p]) ?? []) {
        if (found.has(q)) continue;
        found.add(q);
        pending.push(q);
      }
    }
    return found;
  }

  /** The piece nearest to a point of the plane, or -1 if none comes within `distance`. */
  at(x: number, y: number, distance: number): number {
    const { pieces } = this.scene;
    let best = -1;
    let least = distance;
    for (let p = 0; p < this.scene.pieceFlags.length; p++) {
      if (this.scene.pieceFlags[p] & (PieceFlag.Pair | PieceFlag.Link)) continue; // too light to be meant
      const [x0, y0, y1, x1, y2, y3] = pieces.subarray(PIECE * p, PIECE * p + PIECE);
      const side = this.scene.pieceSide[p];
      if (!Number.isNaN(side)) {
        const far = Math.min(toSegment(x, y, x0, y0, side, y0), toSegment(x, y, side, y0, side, y3), toSegment(x, y, side, y3, x1, y3));
        if (far < least) [best, least] = [p, far];
        continue;
      }
      if (x < Math.min(x0, x1) - least || x > Math.max(x0, x1) + least || y < Math.min(y0, y1, y3) - least || y > Math.max(y0, y1, y3) + least) continue;
      const across = this.scene.pieceFlags[p] & PieceFlag.Bus ? toSegment(x, y, x0, y1, x1, y2) : toCurve(x, y, x0, y1, x1, y2);
      const far = Math.min(toSegment(x, y, x0, y0, x0, y1), toSegment(x, y, x1, y2, x1, y3), across);
      if (far < least) [best, least] = [p, far];
    }
    return best;
  }
}

/** The pieces at each bend or port. */
function grouped(ends: Int32Array): Map<number, number[]> {
  const lists = new Map<number, number[]>();
  ends.forEach((joint, p) => {
    if (joint >= 0) return; // lines are not followed through items
    const list = lists.get(joint);
    if (list) list.push(p);
    else lists.set(joint, [p]);
  });
  return lists;
}

function toSegment(x: number, y: number, x0: number, y0: number, x1: number, y1: number): number {
  const [dx, dy] = [x1 - x0, y1 - y0];
  const t = Math.max(0, Math.min(1, ((x - x0) * dx + (y - y0) * dy) / (dx * dx + dy * dy || 1)));
  return Math.hypot(x - x0 - t * dx, y - y0 - t * dy);
}

/** Distance to the S-shaped part of a piece, taken as twelve straight ones. */
function toCurve(x: number, y: number, x0: number, y0: number, x1: number, y1: number): number {
  const steps = x0 === x1 ? 1 : 12;
  const middle = (y0 + y1) / 2;
  let [px, py] = [x0, y0];
  let least = Infinity;
  for (let k = 1; k <= steps; k++) {
    const t = k / steps;
    const u = 1 - t;
    const ease = t * t * (3 - 2 * t); // both control points stand above and below the ends
    const qx = x0 + (x1 - x0) * ease;
    const qy = u * u * u * y0 + 3 * u * t * middle + t * t * t * y1;
    least = Math.min(least, toSegment(x, y, px, py, qx, qy));
    [px, py] = [qx, qy];
  }
  return least;
}
