// Draws a scene with a pen: frames from the outside in, lines, frame titles, boxes, and the shapes written on lines.

import { BACKWARD, backwardLines, gradientBox, gradientColor, gradientFrame, gradientWords } from "./backward";
import { cardWords } from "./card";
import { describe, NOTE_SIZE, OPENER, SWITCH, TITLE_SIZE, type Face } from "../model/describe";
import { Labels } from "./labels";
import { CURVE_FROM, DIM, TEXT_FROM, type Look, type Window } from "./look";
import type { Marks } from "./marks";
import type { GraphModel } from "../model/model";
import { HEADER } from "../layout/parts";
import { DEAD } from "./path";
import { fitText, type Pen } from "./pen";
import { PIECE, PieceFlag, type Scene } from "../layout/scene";
import { arrow, diamond, hatch, opener, pointer, question, ring, snowflake, STRIPE, stripe, SWITCH_SIZE, switcher, tint, TOGGLE, toggle, trace, warning } from "./shapes";
import { strokeAll, type Pieces, type Stroke } from "./strokes";
import type { Theme } from "../../../core/theme";

/** Below these scales a detail would be smaller than the eye can use. */
const NOTE_FROM = 0.62;
const LABEL_FROM = 0.7;
const SHAPE_FROM = 0.2;
/** What a title keeps of its frame's width while the frame is pushed out of the window. */
const TITLE_ROOM = 120;
/** Of the lines of a path that is lit, from the least gradient to the largest. */
const WIDTHS = [1.5, 2.5, 4, 5.5, 7];

export class Painter {
  private readonly faces = new Map<number, Face>();
  private readonly labels: Labels;

  constructor(private readonly model: GraphModel, readonly scene: Scene) {
    this.labels = new Labels(model, scene);
  }

  face(item: number): Face {
    let face = this.faces.get(item);
    if (!face) this.faces.set(item, (face = describe(this.model, item)));
    return face;
  }

  paint(pen: Pen, view: Window, look: Look): void {
    const { scene } = this;
    const visible = (k: number): boolean => overlaps(scene.rects, 4 * k, view);
    let around = 0; // the innermost frame that fills the window: what is around it is hidden
    for (let k = 0; k < scene.frameCount; k++) if (fills(scene.rects, 4 * k, view)) around = k;
    for (let k = around; k < scene.frameCount; k++) if (visible(k)) this.frame(pen, k, look);
    backwardLines(pen, scene, (p) => pieceVisible(scene, p, view), view, look);
    this.lines(pen, view, look);
    for (let k = around; k < scene.frameCount; k++) if (visible(k)) this.frameTitle(pen, k, view, look);
    for (let k = scene.frameCount; k < scene.items.length; k++) {
      if (!visible(k)) continue;
      pen.opacity(look.focus && !look.focus.items[scene.items[k]] ? DIM : 1);
      this.box(pen, k, view, look);
    }
    pen.opacity(1);
    if (view.scale >= LABEL_FROM) this.labels.paint(pen, view, look);
    if (look.marks) for (let k = 0; k < scene.items.length; k++) if (visible(k)) this.mark(pen, k, look.marks, look.theme);
    if (look.path) for (let k = 0; k < scene.items.length; k++) if (visible(k) && look.path.culprits.has(scene.items[k])) this.culprit(pen, k, look.theme);
  }

  /** How many boxes are in sight; it is enough to know that there are `enough`. */
  countIn(view: Window, enough: number): number {
    const { rects, frameCount, items } = this.scene;
    let count = 0;
    for (let k = frameCount; k < items.length && count < enough; k++) if (overlaps(rects, 4 * k, view)) count++;
    return count;
  }

  /** Boxes and frames as patches of colour, for a map on which nothing else could be seen. */
  overview(context: CanvasRenderingContext2D, look: Look): void {
    const { scene } = this;
    const { theme } = look;
    for (let k = 0; k < scene.items.length; k++) {
      const item = scene.items[k];
      const [x, y, w, h] = scene.rects.subarray(4 * k, 4 * k + 4);
      const frame = k < scene.frameCount;
      context.globalAlpha = frame ? 1 : look.focus && !look.focus.items[item] ? DIM : 0.85;
      context.fillStyle = frame ? tint(theme.quiet, 0.12) : look.shades ? (look.shades.get(item)?.fill ?? theme.line) : theme.category(this.face(item).category);
      context.fillRect(x, y, w, h);
    }
  }

  private frame(pen: Pen, k: number, look: Look): void {
    const [x, y, w, h] = this.scene.rects.subarray(4 * k, 4 * k + 4);
    const depth = this.model.scopes[this.scene.items[k] - this.model.n].depth;
    const { theme } = look;
    const adapter = this.model.adapter(this.scene.items[k]);
    pen.box(x, y, w, h, 8, { fill: depth % 2 ? theme.raised : theme.surface, stroke: adapter ? theme.category("adapter") : theme.line });
    if (this.model.isTwin(this.scene.items[k])) gradientFrame(pen, [x, y, w, h], theme);
    if (this.scene.items[k] === look.selected) ring(pen, x, y, w, h, 8, theme.accent);
  }

  /** A bar at the top of the frame; lines that enter the scope pass behind it. */
  private frameTitle(pen: Pen, k: number, view: Window, look: Look): void {
    const [x, y, w] = this.scene.rects.subarray(4 * k, 4 * k + 4);
    const { theme } = look;
    const item = this.scene.items[k];
    const depth = this.model.scopes[item - this.model.n].depth;
    const adapter = this.model.adapter(item);
    for (const fill of [depth % 2 ? theme.raised : theme.surface, tint(this.model.isTwin(item) ? gradientColor(theme) : adapter ? theme.category("adapter") : theme.quiet, item === look.hovered ? 0.22 : 0.12)]) {
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
    const end = x + w - (adapter ? SWITCH : 0);
    if (adapter) switcher(pen, end + 4, y + (HEADER - SWITCH_SIZE[1]) / 2, adapter.on, theme.category("adapter"), theme);
    const left = Math.max(x + 8 + TOGGLE + 6, Math.min(view.x + 8, x + w - TITLE_ROOM)); // of a frame wider than the window it stays in sight
    const shown = fitText(pen, title, TITLE_SIZE, 600, end - left - 10);
    pen.text(shown.text, left, y + HEADER / 2, { size: TITLE_SIZE, weight: 600, color: theme.ink });
    const room = end - left - 26 - shown.width;
    if (view.scale < NOTE_FROM || pen.measure(note, NOTE_SIZE) > room) return;
    pen.text(note, end - 10, y + HEADER / 2, { size: NOTE_SIZE, color: theme.quiet, align: "right" });
  }

  private box(pen: Pen, k: number, view: Window, look: Look): void {
    const [x, y, w, h] = this.scene.rects.subarray(4 * k, 4 * k + 4);
    const item = this.scene.items[k];
    const face = this.face(item);
    const { theme } = look;
    const shade = look.shades?.get(item);
    const color = look.shades ? theme.quiet : theme.category(face.category);
    const hovered = item === look.hovered;
    const border = hovered ? theme.quiet : theme.line;
    const frozen = look.frozen.has(item);
    const radius = radiusOf(face, h);
    if (item === look.selected) ring(pen, x, y, w, h, radius, theme.accent);
    if (view.scale < SHAPE_FROM) {
      pen.box(x, y, w, h, 0, { fill: look.shades ? (shade?.fill ?? theme.line) : color }); // a patch of its colour
      return;
    }
    if (face.shape === "gradient" || face.shape === "gradients") {
      gradientBox(pen, [x, y, w, h], face.shape === "gradients", item === look.selected, hovered, shade?.fill, theme);
    } else if (face.shape === "scope") {
      pen.box(x + 5, y + 5, w, h, radius, { fill: theme.surface, stroke: border });
      pen.box(x, y, w, h, radius, { fill: shade?.fill ?? theme.raised, stroke: border });
      if (face.adapter && !shade) {
        pen.box(x, y, w, h, radius, { fill: tint(color, face.adapter.on ? 0.12 : 0), stroke: face.adapter.on ? color : border });
        stripe(pen, x, y, h, radius, color);
      }
    } else if (face.shape === "op" || face.shape === "card") {
      pen.box(x, y, w, h, radius, { fill: shade?.fill ?? theme.surface, stroke: border });
      if (!look.shades) stripe(pen, x, y, h, radius, color);
    } else {
      const dash = frozen ? [4, 3] : undefined;
      pen.box(x, y, w, h, radius, { fill: shade?.fill ?? theme.surface });
      const fill = look.shades ? undefined : tint(color, frozen ? 0.05 : 0.16);
      pen.box(x, y, w, h, radius, { fill, stroke: hovered || look.shades ? border : color, dash });
    }
    if (look.marks?.tainted?.items[item]) hatch(pen, x, y, w, h, tint(theme.category("loss"), 0.45));
    if (view.scale < TEXT_FROM) return;
    const ink = shade?.ink ?? theme.ink;
    if (face.card) {
      cardWords(pen, face.card, [x, y, w], { ink, quiet: shade?.ink ?? theme.quiet, plain: look.shades !== undefined, rows: view.scale >= NOTE_FROM, frozen }, theme);
      return;
    }
    if (face.shape === "op" && face.opens && !(look.still && item < this.model.n)) opener(pen, x + w - OPENER - 4, y + h / 2 - 6, hovered ? ink : (shade?.ink ?? theme.quiet));
    this.words(pen, item, [x, y, w, h], view.scale >= NOTE_FROM, frozen, hovered, { ink, quiet: shade?.ink ?? theme.quiet, color: shade?.ink ?? color }, theme);
  }

  private words(
    pen: Pen, item: number, [x, y, w, h]: [number, number, number, number], notes: boolean, frozen: boolean, hovered: boolean,
    { ink, quiet, color }: { ink: string; quiet: string; color: string }, theme: Theme,
  ): void {
    const face = this.face(item);
    const middle = y + h / 2;
    if (face.shape === "gradient" || face.shape === "gradients") gradientWords(pen, face, [x, y, w, h], notes, hovered, ink, quiet, theme);
    else if (face.shape === "scope") {
      toggle(pen, x + 10, middle - TOGGLE / 2, false, hovered ? theme.ink : theme.quiet, theme);
      const left = x + 10 + TOGGLE + 8;
      const room = w - TOGGLE - 26 - (face.adapter ? SWITCH : 0);
      if (face.adapter) switcher(pen, x + w - SWITCH + 4, middle - SWITCH_SIZE[1] / 2, face.adapter.on, theme.category("adapter"), theme);
      pen.text(fitText(pen, face.title, TITLE_SIZE, 600, room).text, left, middle - (notes ? 8 : 0), { size: TITLE_SIZE, weight: 600, color: ink });
      if (notes) pen.text(fitText(pen, face.note, NOTE_SIZE, 400, room).text, left, middle + 8, { size: NOTE_SIZE, color: quiet });
    } else if (face.shape === "op") {
      const room = w - (face.opens ? OPENER : 0);
      const center = x + STRIPE / 2 + room / 2;
      const two = notes && face.note !== "";
      pen.text(fitText(pen, face.title, TITLE_SIZE, 500, room - 18).text, center, middle - (two ? 8 : 0), { size: TITLE_SIZE, weight: 500, color: ink, align: "center" });
      if (two) pen.text(fitText(pen, face.note, NOTE_SIZE, 400, room - 18).text, center, middle + 8, { size: NOTE_SIZE, color: quiet, align: "center" });
    } else {
      const inset = frozen ? 22 : 12;
      if (frozen) snowflake(pen, x + 13, middle, color);
      const title = fitText(pen, face.title, TITLE_SIZE, 500, w - inset - 8);
      const room = w - inset - 12 - title.width - 6;
      if (!face.note || !notes || pen.measure(face.note, NOTE_SIZE) > room) {
        pen.text(title.text, x + (frozen ? inset : w / 2), middle, { size: TITLE_SIZE, weight: 500, color: ink, align: frozen ? "left" : "center" });
      } else {
        pen.text(title.text, x + inset, middle, { size: TITLE_SIZE, weight: 500, color: ink });
        pen.text(face.note, x + w - 12, middle + 0.5, { size: NOTE_SIZE, color: quiet, align: "right" });
      }
    }
  }

  /** What other panels point at; each mark has a shape of its own beside its colour. */
  private mark(pen: Pen, k: number, { current, stops, blamed }: Marks, theme: Theme): void {
    const item = this.scene.items[k];
    if (item !== current && !stops.has(item) && !blamed.has(item)) return;
    const [x, y, w, h] = this.scene.rects.subarray(4 * k, 4 * k + 4);
    const radius = k < this.scene.frameCount ? 8 : radiusOf(this.face(item), h);
    const gap = 5.5; // around the ring of the selection
    const [now, fault] = [theme.category("activation"), theme.category("loss")];
    if (blamed.has(item)) ring(pen, x, y, w, h, radius, fault, 3, gap);
    if (item === current) {
      pen.box(x, y, w, h, radius, { fill: tint(now, k < this.scene.frameCount ? 0.05 : 0.16) });
      ring(pen, x, y, w, h, radius, now, 3, gap);
      pointer(pen, x - gap, y + Math.min(h, HEADER) / 2, now, theme.surface);
    }
    if (stops.has(item)) diamond(pen, x, y, theme.category("norm"), theme.surface);
    if (blamed.has(item)) warning(pen, x + w, y, fault, theme.surface);
  }

  /** What is to blame for the gradient that a path is lit for. */
  private culprit(pen: Pen, k: number, theme: Theme): void {
    const [x, y, w, h] = this.scene.rects.subarray(4 * k, 4 * k + 4);
    ring(pen, x, y, w, h, k < this.scene.frameCount ? 8 : radiusOf(this.face(this.scene.items[k]), h), theme.accent, 3, 5.5);
    question(pen, x + w, y, theme.accent, theme.surface);
  }

  private lines(pen: Pen, view: Window, look: Look): void {
    const { scene } = this;
    const { theme, lit, focus } = look;
    const tainted = look.marks?.tainted?.pieces;
    const styles: Stroke[] = [
      { color: theme.wire, width: 1.2 },
      { color: theme.wire, width: 2.4 },
      { color: theme.wire, width: 1.2, dash: [5, 4] },
      { color: theme.category("loss"), width: 1.8, dash: [6, 3] },
      { color: theme.accent, width: 2 },
      { color: theme.accent, width: 1.2, dash: [2, 4] },
      ...WIDTHS.map((width) => ({ color: theme.accent, width })),
    ];
    const groups = styles.map((): Pieces => [[], []]);
    for (let p = 0; p < scene.pieceFlags.length; p++) {
      if (scene.pieceFlags[p] & BACKWARD || !pieceVisible(scene, p, view) || isDot(scene.pieces, p, view.scale)) continue;
      const special = scene.pieceFlags[p] & (PieceFlag.Feedback | PieceFlag.Express);
      const plain = tainted?.has(p) ? 3 : special ? 2 : scene.pieceWeight[p] > 1 ? 1 : 0;
      const clear = !focus || focus.pieces.has(p);
      const part = clear ? look.path?.widths.get(p) : undefined;
      const style = part === DEAD ? 5 : part !== undefined ? 6 + Math.round(part * (WIDTHS.length - 1)) : lit.has(p) || (focus && clear) ? 4 : plain;
      groups[style][clear || lit.has(p) ? 0 : 1].push(p);
    }
    const { pieces } = scene;
    strokeAll(pen, scene, view.scale, styles, groups, (p) => trace(pen, scene, p, view.scale >= CURVE_FROM), (p) => arrow(pen, pieces[PIECE * p + 3], pieces[PIECE * p + 5]));
  }
}

function radiusOf(face: Face, height: number): number {
  if (face.shape === "variable") return height / 2;
  return face.shape === "placeholder" || face.shape === "constant" || face.shape === "result" ? 4 : 6;
}

function fills(rects: Float32Array, r: number, view: Window): boolean {
  const [x, y, w, h] = rects.subarray(r, r + 4);
  return view.x > x + 1 && view.y > y + HEADER && view.x + view.width < x + w - 1 && view.y + view.height < y + h - 1;
}

function overlaps(rects: Float32Array, r: number, view: Window): boolean {
  const margin = 8;
  return (
    rects[r] < view.x + view.width + margin && rects[r] + rects[r + 2] > view.x - margin &&
    rects[r + 1] < view.y + view.height + margin && rects[r + 1] + rects[r + 3] > view.y - margin
  );
}

/** Whether a piece is less than a pixel long, which nobody sees beside the boxes that it joins. */
function isDot(pieces: Float32Array, piece: number, scale: number): boolean {
  const p = PIECE * piece;
  return scale < CURVE_FROM && (Math.abs(pieces[p + 3] - pieces[p]) + Math.abs(pieces[p + 5] - pieces[p + 1])) * scale < 1;
}

function pieceVisible({ pieces, pieceSide }: Scene, piece: number, view: Window): boolean {
  const p = PIECE * piece;
  const x0 = pieces[p];
  const x1 = Number.isNaN(pieceSide[piece]) ? pieces[p + 3] : pieceSide[piece];
  const top = Math.min(pieces[p + 1], pieces[p + 2], pieces[p + 5]) - 40; // a bus may turn back
  const bottom = Math.max(pieces[p + 1], pieces[p + 2], pieces[p + 5]) + 40;
  return Math.min(x0, x1) - 40 < view.x + view.width && Math.max(x0, x1) + 40 > view.x && top < view.y + view.height && bottom > view.y;
}
