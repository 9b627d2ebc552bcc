// Draws a scene with a pen: frames from the outside in, lines, frame titles, boxes, and the shapes written on lines.

import { HEADER } from "./engine";
import { describe, NOTE_SIZE, shortShape, TITLE_SIZE, type Face } from "./describe";
import type { GraphModel } from "./model";
import { fitText, type Pen } from "./pen";
import { PIECE, PieceFlag, type Scene } from "./scene";
import type { Theme } from "../ui/theme";

export interface Look {
  theme: Theme;
  selected: number;
  hovered: number;
  /** Pieces of the lines into and out of the selected item. */
  lit: Set<number>;
  /** Variables that training leaves alone. */
  frozen: Set<number>;
}

/** What is visible, in the plane's coordinates, and pixels per unit. */
export interface Window {
  x: number;
  y: number;
  width: number;
  height: number;
  scale: number;
}

/** Below these scales a detail would be smaller than the eye can use. */
const TEXT_FROM = 0.42;
const NOTE_FROM = 0.62;
const LABEL_FROM = 0.7;
const CURVE_FROM = 0.12;
const STRIPE = 4;
export const TOGGLE = 16;

export class Painter {
  private readonly faces = new Map<number, Face>();
  private readonly labelled: number[] = [];

  constructor(private readonly model: GraphModel, readonly scene: Scene) {
    // One label per tensor and place it leaves from; parameters carry their shape themselves.
    const seen = new Set<string>();
    scene.pieceFrom.forEach((from, p) => {
      const key = `${from} ${scene.pieceTensor[p]}`;
      if (from < 0 || seen.has(key) || (from < model.n && model.kindOf(from) !== "array")) return;
      seen.add(key);
      this.labelled.push(p);
    });
  }

  face(item: number): Face {
    let face = this.faces.get(item);
    if (!face) this.faces.set(item, (face = describe(this.model, item)));
    return face;
  }

  paint(pen: Pen, view: Window, look: Look): void {
    const { scene } = this;
    const visible = (k: number): boolean => overlaps(scene.rects, 4 * k, view);
    for (let k = 0; k < scene.frameCount; k++) if (visible(k)) this.frame(pen, k, look);
    this.lines(pen, view, look);
    for (let k = 0; k < scene.frameCount; k++) if (visible(k)) this.frameTitle(pen, k, view, look);
    for (let k = scene.frameCount; k < scene.items.length; k++) if (visible(k)) this.box(pen, k, view, look);
    if (view.scale >= LABEL_FROM) this.labels(pen, view, look);
  }

  private frame(pen: Pen, k: number, look: Look): void {
    const [x, y, w, h] = this.scene.rects.subarray(4 * k, 4 * k + 4);
    const depth = this.model.scopes[this.scene.items[k] - this.model.n].depth;
    const { theme } = look;
    pen.box(x, y, w, h, 8, { fill: depth % 2 ? theme.raised : theme.surface, stroke: theme.line });
    if (this.scene.items[k] === look.selected) ring(pen, x, y, w, h, 8, theme.accent);
  }

  /** A bar at the top of the frame; lines that enter the scope pass behind it. */
  private frameTitle(pen: Pen, k: number, view: Window, look: Look): void {
    const [x, y, w] = this.scene.rects.subarray(4 * k, 4 * k + 4);
    const { theme } = look;
    const item = this.scene.items[k];
    const depth = this.model.scopes[item - this.model.n].depth;
    for (const fill of [depth % 2 ? theme.raised : theme.surface, tint(theme.quiet, item === look.hovered ? 0.22 : 0.12)]) {
      pen.begin();
      pen.move(x + 0.5, y + HEADER);
      pen.line(x + 0.5, y + 8);
      pen.curve(x + 0.5, y + 3, x + 3, y + 0.5, x + 8, y + 0.5);
      pen.line(x + w - 8, y + 0.5);
      pen.curve(x + w - 3, y + 0.5, x + w - 0.5, y + 3, x + w - 0.5, y + 8);
      pen.line(x + w - 0.5, y + HEADER);
      pen.fill(fill);
    }
    if (view.scale < TEXT_FROM) return;
    toggle(pen, x + 8, y + (HEADER - TOGGLE) / 2, true, item === look.hovered ? theme.ink : theme.quiet, theme);
    const { title, note } = this.face(item);
    const shown = fitText(pen, title, TITLE_SIZE, 600, w - TOGGLE - 24);
    pen.text(shown.text, x + 8 + TOGGLE + 6, y + HEADER / 2, { size: TITLE_SIZE, weight: 600, color: theme.ink });
    const room = w - TOGGLE - 40 - shown.width;
    if (view.scale < NOTE_FROM || pen.measure(note, NOTE_SIZE) > room) return;
    pen.text(note, x + w - 10, y + HEADER / 2, { size: NOTE_SIZE, color: theme.quiet, align: "right" });
  }

  private box(pen: Pen, k: number, view: Window, look: Look): void {
    const [x, y, w, h] = this.scene.rects.subarray(4 * k, 4 * k + 4);
    const item = this.scene.items[k];
    const face = this.face(item);
    const { theme } = look;
    const color = theme.category(face.category);
    const hovered = item === look.hovered;
    const border = hovered ? theme.quiet : theme.line;
    const frozen = look.frozen.has(item);
    const radius = face.shape === "variable" ? h / 2 : face.shape === "op" || face.shape === "scope" ? 6 : 4;
    if (item === look.selected) ring(pen, x, y, w, h, radius, theme.accent);
    if (face.shape === "scope") {
      pen.box(x + 5, y + 5, w, h, radius, { fill: theme.surface, stroke: border });
      pen.box(x, y, w, h, radius, { fill: theme.raised, stroke: border });
    } else if (face.shape === "op") {
      pen.box(x, y, w, h, radius, { fill: theme.surface, stroke: border });
      this.stripe(pen, x, y, h, radius, color);
    } else {
      const dash = frozen ? [4, 3] : undefined;
      pen.box(x, y, w, h, radius, { fill: theme.surface });
      pen.box(x, y, w, h, radius, { fill: tint(color, frozen ? 0.05 : 0.16), stroke: hovered ? theme.quiet : color, dash });
    }
    if (view.scale < TEXT_FROM) return;
    const middle = y + h / 2;
    const notes = view.scale >= NOTE_FROM;
    if (face.shape === "scope") {
      toggle(pen, x + 10, middle - TOGGLE / 2, false, hovered ? theme.ink : theme.quiet, theme);
      const left = x + 10 + TOGGLE + 8;
      pen.text(fitText(pen, face.title, TITLE_SIZE, 600, w - TOGGLE - 26).text, left, middle - (notes ? 8 : 0), { size: TITLE_SIZE, weight: 600, color: theme.ink });
      if (notes) pen.text(face.note, left, middle + 8, { size: NOTE_SIZE, color: theme.quiet });
    } else if (face.shape === "op") {
      const center = x + STRIPE / 2 + w / 2;
      const two = notes && face.note !== "";
      pen.text(fitText(pen, face.title, TITLE_SIZE, 500, w - 18).text, center, middle - (two ? 8 : 0), { size: TITLE_SIZE, weight: 500, color: theme.ink, align: "center" });
      if (two) pen.text(fitText(pen, face.note, NOTE_SIZE, 400, w - 18).text, center, middle + 8, { size: NOTE_SIZE, color: theme.quiet, align: "center" });
    } else {
      const inset = frozen ? 22 : 12;
      if (frozen) snowflake(pen, x + 13, middle, color);
      const title = fitText(pen, face.title, TITLE_SIZE, 500, w - inset - 8);
      const room = w - inset - 12 - title.width - 6;
      if (!face.note || !notes || pen.measure(face.note, NOTE_SIZE) > room) {
        pen.text(title.text, x + (frozen ? inset : w / 2), middle, { size: TITLE_SIZE, weight: 500, color: theme.ink, align: frozen ? "left" : "center" });
      } else {
        pen.text(title.text, x + inset, middle, { size: TITLE_SIZE, weight: 500, color: theme.ink });
        pen.text(face.note, x + w - 12, middle + 0.5, { size: NOTE_SIZE, color: theme.quiet, align: "right" });
      }
    }
  }

  /** The coloured left edge of an op: its category. */
  private stripe(pen: Pen, x: number, y: number, h: number, r: number, color: string): void {
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

  private lines(pen: Pen, view: Window, look: Look): void {
    const { scene } = this;
    const { theme, lit } = look;
    const groups: [number[], string, number, number[]?][] = [[[], theme.wire, 1.2], [[], theme.wire, 2.4], [[], theme.wire, 1.2, [5, 4]], [[], theme.accent, 2]];
    for (let p = 0; p < scene.pieceFlags.length; p++) {
      if (!pieceVisible(scene.pieces, PIECE * p, view)) continue;
      const special = scene.pieceFlags[p] & (PieceFlag.Feedback | PieceFlag.Express);
      groups[lit.has(p) ? 3 : special ? 2 : scene.pieceWeight[p] > 1 ? 1 : 0][0].push(p);
    }
    const thin = Math.max(1, 0.5 / view.scale); // never thinner than half a pixel
    for (const [pieces, color, width, dash] of groups) {
      if (!pieces.length) continue;
      pen.begin();
      for (const p of pieces) trace(pen, scene.pieces, PIECE * p, view.scale >= CURVE_FROM);
      pen.stroke(color, width * thin, dash);
      if (view.scale < TEXT_FROM) continue;
      pen.begin();
      for (const p of pieces) if (scene.pieceFlags[p] & PieceFlag.Arrow) arrow(pen, scene.pieces[PIECE * p + 3], scene.pieces[PIECE * p + 5]);
      pen.fill(color);
    }
  }

  private labels(pen: Pen, view: Window, look: Look): void {
    const { scene, model } = this;
    for (const p of this.labelled) {
      const [x0, y0, y1, x1, y2] = scene.pieces.subarray(PIECE * p, PIECE * p + 5);
      if (y2 - y0 < 18 || !pieceVisible(scene.pieces, PIECE * p, view)) continue;
      const count = scene.pieceWeight[p];
      const text = count > 1 ? `${count} tensors` : shortShape(model.spec.specs[model.specOf[scene.pieceTensor[p]]]);
      const side = x1 < x0 - 1 ? 1 : x1 > x0 + 1 ? -1 : 1; // on the side from which the line turns away
      pen.text(text, x0 + 7 * side, Math.max(y0 + 9, y1 + 9), { size: 9.5, color: look.theme.quiet, align: side > 0 ? "left" : "right" });
    }
  }
}

function overlaps(rects: Float32Array, r: number, view: Window): boolean {
  const margin = 8;
  return (
    rects[r] < view.x + view.width + margin && rects[r] + rects[r + 2] > view.x - margin &&
    rects[r + 1] < view.y + view.height + margin && rects[r + 1] + rects[r + 3] > view.y - margin
  );
}

function pieceVisible(pieces: Float32Array, p: number, view: Window): boolean {
  const x0 = pieces[p];
  const x1 = pieces[p + 3];
  const top = Math.min(pieces[p + 1], pieces[p + 5]) - 40;
  const bottom = Math.max(pieces[p + 1], pieces[p + 5]) + 40;
  return Math.min(x0, x1) - 40 < view.x + view.width && Math.max(x0, x1) + 40 > view.x && top < view.y + view.height && bottom > view.y;
}

function trace(pen: Pen, pieces: Float32Array, p: number, curved: boolean): void {
  const [x0, y0, y1, x1, y2, y3] = pieces.subarray(p, p + PIECE);
  pen.move(x0, y0);
  if (y1 > y0) pen.line(x0, y1);
  if (!curved || (x0 === x1 && y2 >= y1)) pen.line(x1, y2);
  else {
    const reach = y2 >= y1 ? (y2 - y1) / 2 : 48; // a line that runs upwards swings out first
    pen.curve(x0, y1 + reach, x1, y2 - reach, x1, y2);
  }
  if (y3 !== y2) pen.line(x1, y3);
}

function arrow(pen: Pen, x: number, y: number): void {
  pen.move(x, y);
  pen.line(x - 3.5, y - 6.5);
  pen.line(x + 3.5, y - 6.5);
  pen.line(x, y);
}

function ring(pen: Pen, x: number, y: number, w: number, h: number, radius: number, color: string): void {
  pen.box(x - 3, y - 3, w + 6, h + 6, radius + 3, { stroke: color, width: 2 });
}

function toggle(pen: Pen, x: number, y: number, open: boolean, color: string, theme: Theme): void {
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

function snowflake(pen: Pen, x: number, y: number, color: string): void {
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
function tint(color: string, opacity: number): string {
  const [r, g, b] = color.match(/[\d.]+/g) ?? ["128", "128", "128"];
  return `rgba(${r}, ${g}, ${b}, ${opacity})`;
}
