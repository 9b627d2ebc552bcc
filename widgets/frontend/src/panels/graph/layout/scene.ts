// The display list: what one layout puts on the plane, in columns that a worker can hand over without copying.

/**
 * A piece of line goes straight down from (x0, y0) to y1, curves over to (x1, y2) and goes straight down to y3;
 * or up, in the lane of gradients. That of a bus goes straight to y1, straight across to x1 and straight on to y3.
 * Pairs and links run sideways and have no straight ends.
 */
export const PIECE = 6;

export const enum PieceFlag {
  /** Ends at an item and carries an arrowhead. */
  Arrow = 1,
  /** Runs against the direction of the drawing. */
  Feedback = 2,
  /** Spans many rows without bends. */
  Express = 4,
  /** Runs upwards, as gradients do. */
  Up = 8,
  /** Carries the gradient of a tensor. */
  Cotangent = 16,
  /** The hairline between an item and its gradient. */
  Pair = 32,
  /** From one layer to another: a forward result that a gradient uses, a gradient that an update uses. */
  Link = 64,
  /** One of the many that say little, or that pass what they have nothing to do with: drawn only where it is asked for. */
  Quiet = 128,
  /** One of many lines that run together, or one from column to column. */
  Bus = 256,
}

export interface Scene {
  width: number;
  height: number;
  /** Where reading begins: the middle of the upper edge of the first item of the main line. */
  anchor: [number, number];
  /** Open scopes from the outside in, then boxes. */
  frameCount: number;
  /** Items of frames and boxes, and x, y, width, height of each. */
  items: Int32Array;
  rects: Float32Array;
  pieces: Float32Array;
  pieceFlags: Uint16Array;
  /** What a piece joins: an item, or (negative) a bend or port. */
  pieceFrom: Int32Array;
  pieceTo: Int32Array;
  /** First tensor that runs through a piece and how many do. */
  pieceTensor: Int32Array;
  pieceWeight: Int32Array;
  /** Where a piece that runs back passes what stands between its ends; NaN for all others. */
  pieceSide: Float32Array;
}

/** Buffers to hand over with a message. */
export function transferables(scene: Scene): ArrayBuffer[] {
  return Object.values(scene).flatMap((value) => (ArrayBuffer.isView(value) ? [value.buffer as ArrayBuffer] : []));
}

/** Index of the box, or else of the innermost frame, at a point of the plane; -1 if there is none. */
export function hit(scene: Scene, x: number, y: number): number {
  const { rects } = scene;
  for (let k = scene.items.length - 1; k >= 0; k--) {
    const r = 4 * k;
    if (x >= rects[r] && y >= rects[r + 1] && x <= rects[r] + rects[r + 2] && y <= rects[r + 1] + rects[r + 3]) return k;
  }
  return -1;
}

/** Index of each item that is drawn. */
export function placesOf(scene: Scene): Map<number, number> {
  const places = new Map<number, number>();
  scene.items.forEach((item, k) => places.set(item, k));
  return places;
}

/** Pieces of the lines that lead into and out of an item, followed through bends and frames to the next item. */
export function linesOf(scene: Scene, item: number): Set<number> {
  const found = new Set<number>();
  for (const [near, far] of [
    [scene.pieceFrom, scene.pieceTo],
    [scene.pieceTo, scene.pieceFrom],
  ]) {
    const byNear = new Map<number, number[]>();
    near.forEach((joint, p) => {
      const list = byNear.get(joint);
      if (list) list.push(p);
      else byNear.set(joint, [p]);
    });
    const pending = [item];
    for (let at = pending.pop(); at !== undefined; at = pending.pop()) {
      for (const p of byNear.get(at) ?? []) {
        if (found.has(p)) continue;
        found.add(p);
        if (far[p] < 0) pending.push(far[p]);
      }
    }
  }
  return found;
}
