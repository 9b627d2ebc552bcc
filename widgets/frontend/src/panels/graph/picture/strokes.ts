// Lines of many styles, each style in one go, for a pen is slow to change its colour.

import { DIM, TEXT_FROM } from "./look";
import { PieceFlag, type Scene } from "../layout/scene";
import type { Pen } from "./pen";

export interface Stroke {
  color: string;
  width: number;
  dash?: number[];
}

/** The pieces of each style: those that are clear, and those that are dimmed. */
export type Pieces = [clear: number[], dimmed: number[]];

/** Draws lines by `trace`, and with `head` what they end in as soon as there is text to be read. */
export function strokeAll(pen: Pen, { pieceFlags }: Scene, scale: number, styles: readonly Stroke[], groups: readonly Pieces[], trace: (piece: number) => void, head: (piece: number) => void): void {
  const thin = Math.max(1, 0.5 / scale); // never thinner than half a pixel
  groups.forEach((halves, g) => {
    const { color, width, dash } = styles[g];
    halves.forEach((pieces, dimmed) => {
      if (!pieces.length) return;
      pen.opacity(dimmed ? DIM : 1);
      pen.begin();
      pieces.forEach(trace);
      pen.stroke(color, width * thin, dash);
      if (scale < TEXT_FROM) return;
      pen.begin();
      for (const p of pieces) if (pieceFlags[p] & PieceFlag.Arrow) head(p);
      pen.fill(color);
    });
  });
  pen.opacity(1);
}
