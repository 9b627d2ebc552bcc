// How gradients look: violet boxes and frames, dashed violet lines that run upwards, and hairlines to what they are
// the gradients of. The stripe of an op is on its left, that of its gradient on its right, like in a mirror.

import { NOTE_SIZE, TITLE_SIZE, type Face } from "../model/describe";
import { CURVE_FROM, type Look, type Window } from "./look";
import { fitText, type Pen } from "./pen";
import { PIECE, PieceFlag, type Scene } from "../layout/scene";
import { bus, CORNER, ring, STRIPE, tint, TOGGLE, toggle } from "./shapes";
import { strokeAll, type Pieces, type Stroke } from "./strokes";
import type { Theme } from "../../../core/theme";

/** Pieces that are painted here. */
export const BACKWARD = PieceFlag.Cotangent | PieceFlag.Pair | PieceFlag.Link;

const DASH = [6, 4];
const TURN = 72; // room for the bend of a link before the item it leads to
const HAIRLINE = [1, 4];

export function gradientColor(theme: Theme): string {
  return theme.category("gradient");
}

/** Lines of gradients, and whatever runs from one layer to another. */
export function backwardLines(pen: Pen, scene: Scene, visible: (p: number) => boolean, view: Window, look: Look): void {
  const { theme, lit, focus, marks } = look;
  const violet = gradientColor(theme);
  const styles: Stroke[] = [
    { color: tint(theme.quiet, 0.5), width: 1, dash: HAIRLINE },
    { color: tint(violet, 0.5), width: 1, dash: HAIRLINE },
    { color: violet, width: 1.3, dash: DASH },
    { color: violet, width: 2.4, dash: DASH },
    { color: theme.category("loss"), width: 1.8, dash: [6, 3] },
    { color: theme.accent, width: 1.4, dash: HAIRLINE },
    { color: theme.accent, width: 2, dash: DASH },
  ];
  const groups = styles.map((): Pieces => [[], []]);
  for (let p = 0; p < scene.pieceFlags.length; p++) {
    const flags = scene.pieceFlags[p];
    if (!(flags & BACKWARD) || !visible(p)) continue;
    const light = flags & (PieceFlag.Pair | PieceFlag.Link);
    const clear = !focus || focus.pieces.has(p);
    const plain = flags & PieceFlag.Link ? 0 : flags & PieceFlag.Pair ? 1 : scene.pieceWeight[p] > 1 ? 3 : 2;
    const bright = lit.has(p) || (focus && clear);
    if (flags & PieceFlag.Quiet && !bright) continue;
    const style = bright ? (light ? 5 : 6) : marks?.tainted?.pieces.has(p) ? 4 : plain;
    groups[style][clear || lit.has(p) ? 0 : 1].push(p);
  }
  const { pieces, pieceFlags } = scene;
  const line = (p: number): void => {
    if (pieceFlags[p] & (PieceFlag.Pair | PieceFlag.Link)) across(pen, pieces, PIECE * p);
    else along(pen, pieces, PIECE * p, pieceFlags[p], view.scale >= CURVE_FROM);
  };
  strokeAll(pen, scene, view.scale, styles, groups, line, (p) => head(pen, pieces[PIECE * p + 3], pieces[PIECE * p + 5], pieceFlags[p]));
}

/** A piece that runs upwards, or one of a second-order gradient, which runs downwards again. */
function along(pen: Pen, pieces: Float32Array, p: number, flags: number, curved: boolean): void {
  const [x0, y0, y1, x1, y2, y3] = pieces.subarray(p, p + PIECE);
  if (flags & PieceFlag.Bus) {
    pen.move(x0, y0);
    bus(pen, x0, y0, y1, x1, y3, curved ? CORNER : 0);
    return;
  }
  const sign = flags & PieceFlag.Up ? -1 : 1;
  const ahead = sign * (y2 - y1);
  pen.move(x0, y0);
  if (y1 !== y0) pen.line(x0, y1);
  if (!curved || (x0 === x1 && ahead >= 0)) pen.line(x1, y2);
  else {
    const reach = sign * (ahead >= 0 ? ahead / 2 : 48);
    pen.curve(x0, y1 + reach, x1, y2 - reach, x1, y2);
  }
  if (y3 !== y2) pen.line(x1, y3);
}

/** Straight between two at one height, else straight for as long as it can be. */
function across(pen: Pen, pieces: Float32Array, p: number): void {
  const [x0, y0, , x1, , y1] = pieces.subarray(p, p + PIECE);
  pen.move(x0, y0);
  if (Math.abs(y1 - y0) < 0.5) pen.line(x1, y1);
  else {
    const turn = x1 - Math.sign(x1 - x0) * Math.min(TURN, Math.abs(x1 - x0));
    pen.line(turn, y0);
    pen.curve((turn + x1) / 2, y0, (turn + x1) / 2, y1, x1, y1);
  }
}

function head(pen: Pen, x: number, y: number, flags: number): void {
  const back = flags & PieceFlag.Up ? 6.5 : -6.5;
  pen.move(x, y);
  pen.line(x - 3.5, y + back);
  pen.line(x + 3.5, y + back);
  pen.line(x, y);
}

/** A closed gradient. */
export function gradientBox(pen: Pen, [x, y, w, h]: readonly number[], stacked: boolean, selected: boolean, hovered: boolean, fill: string | undefined, theme: Theme): void {
  const violet = gradientColor(theme);
  const stroke = hovered ? violet : tint(violet, 0.6);
  const paper = fill ?? tint(violet, 0.1);
  if (stacked) pen.box(x + 5, y - 5, w, h, 6, { fill: theme.surface, stroke }); // upwards: lines arrive from below
  if (selected) ring(pen, x, y, w, h, 6, theme.accent);
  pen.box(x, y, w, h, 6, { fill: theme.surface });
  pen.box(x, y, w, h, 6, { fill: paper, stroke });
  if (!stacked) mirroredStripe(pen, x + w, y, h, 6, violet);
}

export function gradientWords(pen: Pen, face: Face, [x, y, w, h]: readonly number[], notes: boolean, hovered: boolean, ink: string, quiet: string, theme: Theme): void {
  const middle = y + h / 2;
  toggle(pen, x + 9, middle - TOGGLE / 2, false, hovered ? theme.ink : gradientColor(theme), theme);
  const left = x + 9 + TOGGLE + 8;
  const up = h > 40 ? 8 : 7.5;
  pen.text(fitText(pen, face.title, TITLE_SIZE, 500, w - TOGGLE - 28).text, left, middle - (notes ? up : 0), { size: TITLE_SIZE, weight: 500, color: ink });
  if (notes) pen.text(fitText(pen, face.note, NOTE_SIZE, 400, w - TOGGLE - 28).text, left, middle + up, { size: NOTE_SIZE, color: quiet });
}

/** Tints the frame of an open gradient. */
export function gradientFrame(pen: Pen, [x, y, w, h]: readonly number[], theme: Theme): void {
  const violet = gradientColor(theme);
  pen.box(x, y, w, h, 8, { fill: tint(violet, 0.04), stroke: tint(violet, 0.6) });
}

function mirroredStripe(pen: Pen, x: number, y: number, h: number, r: number, color: string): void {
  pen.begin();
  pen.move(x - r, y);
  pen.curve(x - r / 2, y, x, y + r / 2, x, y + r);
  pen.line(x, y + h - r);
  pen.curve(x, y + h - r / 2, x - r / 2, y + h, x - r, y + h);
  pen.curve(x - r / 2 - 1, y + h, x - STRIPE, y + h - r / 2, x - STRIPE, y + h - r);
  pen.line(x - STRIPE, y + r);
  pen.curve(x - STRIPE, y + r / 2, x - r / 2 - 1, y, x - r, y);
  pen.fill(color);
}
