// The small shapes that a drawing is made of, each at home on a screen and in an SVG file.

import type { Pen } from "./pen";
import { PIECE, PieceFlag, type Scene } from "../layout/scene";
import { rgb } from "../../../core/colors";
import type { Theme } from "../../../core/theme";

export const TOGGLE = 16;
export const STRIPE = 4;
const TURN = 20;
/** Of a line that runs in straight pieces. */
export const CORNER = 8;

/** A piece of line; one that runs back turns round, passes what is between its ends at one side, and turns round again. */
export function trace(pen: Pen, { pieces, pieceFlags, pieceSide }: Scene, piece: number, curved: boolean): void {
  const [x0, y0, y1, x1, y2, y3] = pieces.subarray(PIECE * piece, PIECE * (piece + 1));
  const side = pieceSide[piece];
  pen.move(x0, y0);
  if (pieceFlags[piece] & PieceFlag.Bus) {
    bus(pen, x0, y0, y1, x1, y3, curved ? CORNER : 0);
    return;
  }
  if (!Number.isNaN(side)) {
    pen.curve(x0, y0 + TURN, side, y0 + TURN, side, y0);
    pen.line(side, y3);
    pen.curve(side, y3 - TURN, x1, y3 - TURN, x1, y3);
    return;
  }
  if (y1 > y0) pen.line(x0, y1);
  if (!curved || (x0 === x1 && y2 >= y1)) pen.line(x1, y2);
  else {
    const reach = y2 >= y1 ? (y2 - y1) / 2 : 48; // a line that runs upwards swings out first
    pen.curve(x0, y1 + reach, x1, y2 - reach, x1, y2);
  }
  if (y3 !== y2) pen.line(x1, y3);
}

/** Straight to a height, across, and straight on, with round corners; from (x0, y0), where the pen is. */
export function bus(pen: Pen, x0: number, y0: number, y1: number, x1: number, y3: number, corner: number): void {
  const across = Math.sign(x1 - x0) * Math.min(corner, Math.abs(x1 - x0) / 2);
  const before = Math.sign(y0 - y1) * Math.min(corner, Math.abs(y0 - y1));
  const after = Math.sign(y3 - y1) * Math.min(corner, Math.abs(y3 - y1));
  if (x0 === x1) {
    pen.line(x1, y3);
    return;
  }
  pen.line(x0, y1 + before);
  pen.curve(x0, y1 + before / 3, x0 + across / 3, y1, x0 + across, y1);
  pen.line(x1 - across, y1);
  pen.curve(x1 - across / 3, y1, x1, y1 + after / 3, x1, y1 + after);
  pen.line(x1, y3);
}

export function arrow(pen: Pen, x: number, y: number): void {
  pen.move(x, y);
  pen.line(x - 3.5, y - 6.5);
  pen.line(x + 3.5, y - 6.5);
  pen.line(x, y);
}

export function ring(pen: Pen, x: number, y: number, w: number, h: number, radius: number, color: string, width = 2, gap = 3): void {
  pen.box(x - gap, y - gap, w + 2 * gap, h + 2 * gap, radius + gap, { stroke: color, width });
}

/** The coloured left edge of an op: its category. */
export function stripe(pen: Pen, x: number, y: number, h: number, r: number, color: string): void {
  pen.begin();
  pen.move(x + r, y);
  pen.curve(x + r / 2, y, x, y + r / 2, x, y + r);
  pen.line(x, y + h - r);
  pen.curve(x, y + h - r / 2, x + r / 2, y + h, x + r, y + h);
  pen.line(x + r, y + h);
  pen.curve(x + r / 2 + 1, y + h, x + STRIPE, y + h - r / 2, x + STRIPE, y + h - r);
  pen.line(x + STRIPE, y + r);
  pen.curve(x + STRIPE, y + r / 2, x + r / 2 + 1, y, x + r, y);
  pen.fill(color);
}

export function toggle(pen: Pen, x: number, y: number, open: boolean, color: string, theme: Theme): void {
  pen.box(x, y, TOGGLE, TOGGLE, 4, { fill: theme.surface, stroke: color });
  const c = TOGGLE / 2;
  pen.begin();
  pen.move(x + 4, y + c);
  pen.line(x + TOGGLE - 4, y + c);
  if (!open) {
    pen.move(x + c, y + 4);
    pen.line(x + c, y + TOGGLE - 4);
  }
  pen.stroke(color, 1.5);
}

export const SWITCH_SIZE = [26, 14] as const;

/** A switch, whose knob stands at the right where it is on. */
export function switcher(pen: Pen, x: number, y: number, on: boolean, color: string, theme: Theme): void {
  const [width, height] = SWITCH_SIZE;
  pen.box(x, y, width, height, height / 2, on ? { fill: color, stroke: color } : { fill: theme.surface, stroke: theme.quiet });
  const size = height - 6;
  pen.box(x + (on ? width - size - 3 : 3), y + 3, size, size, size / 2, { fill: on ? theme.surface : theme.quiet });
}

/** The mark of a node that encloses others: a small plus in a frame. */
export function opener(pen: Pen, x: number, y: number, color: string): void {
  pen.box(x, y, 12, 12, 3, { stroke: tint(color, 0.6) });
  pen.begin();
  pen.move(x + 3.5, y + 6);
  pen.line(x + 8.5, y + 6);
  pen.move(x + 6, y + 3.5);
  pen.line(x + 6, y + 8.5);
  pen.stroke(color, 1.2);
}

export function snowflake(pen: Pen, x: number, y: number, color: string): void {
  pen.begin();
  for (let k = 0; k < 3; k++) {
    const dx = 4.5 * Math.sin((k * Math.PI) / 3);
    const dy = 4.5 * Math.cos((k * Math.PI) / 3);
    pen.move(x - dx, y - dy);
    pen.line(x + dx, y + dy);
  }
  pen.stroke(color, 1.3);
}

/** `rgb(r, g, b)` with an opacity. */
export function tint(color: string, opacity: number): string {
  const [r, g, b] = rgb(color);
  return `rgba(${r}, ${g}, ${b}, ${opacity})`;
}

/** Slanted lines over a box, for what inherits an error: seen without its colour, too. */
export function hatch(pen: Pen, x: number, y: number, w: number, h: number, color: string): void {
  pen.begin();
  for (let at = 7; at < w + h; at += 8) {
    pen.move(x + Math.max(0, at - h), y + Math.min(h, at));
    pen.line(x + Math.min(w, at), y + Math.max(0, at - w));
  }
  pen.stroke(color, 1);
}

/** An arrowhead that points at the left edge of what runs next. */
export function pointer(pen: Pen, x: number, y: number, color: string, paper: string): void {
  for (const [grow, fill] of [[2, paper], [0, color]] as const) {
    pen.begin();
    pen.move(x - 3 + grow, y);
    pen.line(x - 14 - grow, y - 7 - grow * 1.5);
    pen.line(x - 14 - grow, y + 7 + grow * 1.5);
    pen.line(x - 3 + grow, y);
    pen.fill(fill);
  }
}

/** A breakpoint: a diamond with a rim, as in the stepper's list. */
export function diamond(pen: Pen, x: number, y: number, color: string, paper: string): void {
  pen.begin();
  pen.move(x, y - 7);
  pen.line(x + 7, y);
  pen.line(x, y + 7);
  pen.line(x - 7, y);
  pen.line(x, y - 7);
  pen.fill(color);
  pen.stroke(paper, 1.5);
}

/** A disc with a question mark: the answer to why a gradient is what it is. */
export function question(pen: Pen, x: number, y: number, color: string, paper: string): void {
  pen.box(x - 9, y - 9, 18, 18, 9, { fill: color, stroke: paper, width: 1.5 });
  pen.text("?", x, y + 0.5, { size: 12, weight: 700, color: paper, align: "center" });
}

/** A triangle with an exclamation mark: at fault. */
export function warning(pen: Pen, x: number, y: number, color: string, paper: string): void {
  pen.begin();
  pen.move(x, y - 9);
  pen.line(x + 9.5, y + 7.5);
  pen.line(x - 9.5, y + 7.5);
  pen.line(x, y - 9);
  pen.fill(color);
  pen.stroke(paper, 1.5);
  pen.begin();
  pen.move(x, y - 3.5);
  pen.line(x, y + 2);
  pen.move(x, y + 4.6);
  pen.line(x, y + 5.2);
  pen.stroke(paper, 1.7);
}
