// The shapes written beside lines: one for each tensor and place that it leaves, where it hides no box, no title and no
// other label; a label without such a place is left out.

import { BACKWARD } from "./backward";
import { textWidth } from "../model/text";
import { DIM, type Look, type Window } from "./look";
import type { GraphModel } from "../model/model";
import { HEADER } from "../layout/parts";
import type { Pen } from "./pen";
import { PIECE, type Scene } from "../layout/scene";
import { shortShape } from "../model/sizes";

const SIZE = 9.5;
/** Below where the line leaves; further where a mark is around its item, whose ring reaches 7. */
const BELOW = 11;
const BELOW_MARK = 17;
const BESIDE = 7;
/** Between two rows, so that there is room at all. */
const ROOM = 18;
/** A closed scope is drawn as a stack, so far beyond its box. */
const STACK = 5;
const CELL = 160;

interface Label {
  piece: number;
  text: string;
  x: number;
  y: number;
  align: "left" | "right";
}

type Rect = [x0: number, y0: number, x1: number, y1: number];

export class Labels {
  private labels: Label[] | undefined; // found when they are first in sight

  constructor(private readonly model: GraphModel, private readonly scene: Scene) {}

  paint(pen: Pen, view: Window, { theme, focus, marks }: Look): void {
    this.labels ??= this.place();
    for (const { piece, text, x, y, align } of this.labels) {
      if (x < view.x || y < view.y || x > view.x + view.width || y > view.y + view.height) continue;
      const from = this.scene.pieceFrom[piece];
      const marked = from === marks?.current || marks?.blamed.has(from);
      pen.opacity(focus && !focus.pieces.has(piece) ? DIM : 1);
      pen.text(text, x, y + (marked ? BELOW_MARK - BELOW : 0), { size: SIZE, color: theme.quiet, align });
    }
    pen.opacity(1);
  }

  /** What each label takes, for tests: no two overlap, and none a box. */
  boxes(): Rect[] {
    return (this.labels ??= this.place()).map(({ text, x, y, align }) => rectOf(text, x, y, align));
  }

  private place(): Label[] {
    const { scene, model } = this;
    const taken = new Taken();
    for (let k = 0; k < scene.items.length; k++) {
      const [x, y, w, h] = scene.rects.subarray(4 * k, 4 * k + 4);
      const stack = k >= scene.frameCount && scene.items[k] >= model.n ? STACK : 0;
      taken.add([x, y, x + w + stack, y + (k < scene.frameCount ? HEADER : h + stack)]);
    }
    const seen = new Set<string>();
    const found: Label[] = [];
    scene.pieceFrom.forEach((from, piece) => {
      const tensor = scene.pieceTensor[piece];
      if (from < 0 || scene.pieceFlags[piece] & BACKWARD || (from < model.n && model.kindOf(from) !== "array")) return; // parameters carry their shape
      if (seen.has(`${from} ${tensor}`)) return;
      const [x0, y0, y1, x1, y2] = scene.pieces.subarray(PIECE * piece, PIECE * piece + 5);
      if (y2 - y0 < ROOM) return;
      const count = scene.pieceWeight[piece];
      const text = count > 1 ? `${count} tensors` : shortShape(model.spec.specs[model.specOf[tensor]]);
      const sides = x1 > x0 + 1 ? [-1, 1] : [1, -1]; // away from where the line turns, if there is room
      for (const [y, side] of [y0, Math.max(y0, y1)].flatMap((edge) => sides.map((side) => [edge + BELOW, side]))) {
        const align = side > 0 ? "left" : "right";
        const x = x0 + BESIDE * side;
        const rect = rectOf(text, x, y, align);
        if (taken.has(rect)) continue;
        taken.add(rect);
        seen.add(`${from} ${tensor}`);
        found.push({ piece, text, x, y, align });
        return;
      }
    });
    return found;
  }
}

/** With the room that it takes below where its item is marked. */
function rectOf(text: string, x: number, y: number, align: "left" | "right"): Rect {
  const width = textWidth(text, SIZE);
  const left = align === "left" ? x : x - width;
  return [left, y - SIZE / 2, left + width, y + SIZE / 2 + BELOW_MARK - BELOW];
}

/** Rectangles by the cells of a grid that they reach into. */
class Taken {
  private readonly cells = new Map<number, Rect[]>();

  add(rect: Rect): void {
    for (const cell of cellsOf(rect)) {
      const list = this.cells.get(cell);
      if (list) list.push(rect);
      else this.cells.set(cell, [rect]);
    }
  }

  has([x0, y0, x1, y1]: Rect): boolean {
    return cellsOf([x0, y0, x1, y1]).some((cell) => this.cells.get(cell)?.some((r) => x0 < r[2] && r[0] < x1 && y0 < r[3] && r[1] < y1));
  }
}

function cellsOf([x0, y0, x1, y1]: Rect): number[] {
  const cells: number[] = [];
  for (let i = Math.floor(x0 / CELL); i <= Math.floor(x1 / CELL); i++) {
    for (let k = Math.floor(y0 / CELL); k <= Math.floor(y1 / CELL); k++) cells.push(i * 4_000_003 + k);
  }
  return cells;
}
