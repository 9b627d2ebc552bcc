// The picture: cells as colours, what is not finite with signs of its own, a colour bar, zoom and a cursor.

import type { Theme } from "../../core/theme";
import { rgb } from "../../core/colors";
import { compact } from "../../core/format";
import { BAD_COLORS, type Scale } from "./colors";
import { GOOD, MINUS, NAN, type Part, type Place, type State, type TensorFacts, type Window } from "./picture";

interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

const BAR = 74; // px right of the picture for the colour bar and its numbers
const PAD = 10;
const LARGEST = 64; // px of a cell's side; a picture of four numbers need not fill the screen
const STRETCH = 6; // longest side of an element of a matrix, in its shortest
const SQUARE = 4; // an element that would be stretched less than this is square instead
const MANY = 100; // rows and columns from which a matrix is rather a picture, and stretched less
const STRIP = 34; // px of the row of colours under the bars of a vector
const SIGN = 7; // px, so that one NaN in a million elements is seen
const SIGNS = 1500; // most signs drawn one by one; more are seen by their colour alone

export class Heatmap {
  private box: Box = { x: 0, y: 0, width: 0, height: 0 };
  private view: Box = { x: 0, y: 0, width: 1, height: 1 };
  private gap = 0;
  private sheet = { width: 1, height: 1 };
  private facts: TensorFacts | undefined;
  private readonly images = new Map<Part, { canvas: HTMLCanvasElement; signs: [number, State][]; for: Scale; mean: boolean }>();
  private base: Part | undefined;
  private fine: Part | undefined;

  /** Shows other numbers; the zoom stays if the picture has the same form. */
  show(facts: TensorFacts | undefined, base: Part | undefined): void {
    const before = this.facts;
    const same = before && facts && [before.height, before.width, before.shown, before.grid[1]].join() === [facts.height, facts.width, facts.shown, facts.grid[1]].join();
    this.facts = facts;
    this.base = base;
    this.images.clear();
    if (same) return;
    this.fine = undefined;
    if (!facts) return;
    this.gap = facts.shown > 1 ? Math.max(0.3, 0.07 * Math.max(facts.height, facts.width)) : 0;
    const [rows, columns] = facts.grid;
    this.sheet = { width: columns * (facts.width + this.gap) - this.gap, height: rows * (facts.height + this.gap) - this.gap };
    this.reset();
  }

  /** Takes a finer picture of what is in view; one that comes after the zoom was left would lie over the whole. */
  refine(part: Part): void {
    if (!this.zoomed) return;
    if (this.fine) this.images.delete(this.fine);
    this.fine = part;
  }

  /** The finer picture of what is in view, if there is one. */
  get detail(): Part | undefined {
    return this.fine;
  }

  get strip(): boolean {
    return this.facts?.slice.length === 1;
  }

  get zoomed(): boolean {
    return this.view.width < this.sheet.width * 0.999 || this.view.height < this.sheet.height * 0.999;
  }

  reset(): void {
    this.view = { x: 0, y: 0, ...this.sheet };
    this.fine = undefined;
  }

  zoom(factor: number, x: number, y: number): void {
    const { box, view, sheet } = this;
    const share = Math.min(1, view.width / sheet.width / factor);
    const width = Math.max(Math.min(3, sheet.width), sheet.width * share);
    const height = this.strip ? sheet.height : Math.max(Math.min(3, sheet.height), sheet.height * share);
    view.x += ((x - box.x) / box.width) * (view.width - width);
    view.y += ((y - box.y) / box.height) * (view.height - height);
    [view.width, view.height] = [width, height];
    this.keepInside();
  }

  pan(dx: number, dy: number): void {
    this.view.x -= (dx / this.box.width) * this.view.width;
    this.view.y -= (dy / this.box.height) * this.view.height;
    this.keepInside();
  }

  private keepInside(): void {
    const { view, sheet } = this;
    view.x = Math.max(0, Math.min(sheet.width - view.width, view.x));
    view.y = Math.max(0, Math.min(sheet.height - view.height, view.y));
    if (!this.zoomed) this.fine = undefined;
  }

  /** Brings an element into view. */
  reveal(place: Place): void {
    const { x, y } = this.onSheet(place);
    const { view } = this;
    if (x < view.x || x + 1 > view.x + view.width) view.x = x - view.width / 2;
    if (y < view.y || y + 1 > view.y + view.height) view.y = y - view.height / 2;
    this.keepInside();
  }

  /** The window that a finer picture should have; undefined where this one shows every element. */
  wanted(): Window | undefined {
    if (!this.facts || !this.base?.reduced || !this.zoomed) return undefined;
    const { view, facts } = this;
    const span = (start: number, room: number, size: number, tiles: number): [number, number, number, number] => {
      const pitch = size + this.gap;
      const first = Math.max(0, Math.min(tiles - 1, Math.floor(start / pitch)));
      const last = Math.max(first, Math.min(tiles - 1, Math.floor((start + room) / pitch)));
      if (last > first) return [first, last + 1, 0, size];
      const from = Math.max(0, Math.min(size - 1, Math.floor(start - first * pitch)));
      return [first, first + 1, from, Math.max(from + 1, Math.min(size, Math.ceil(start + room - first * pitch)))];
    };
    const [r0, r1, top, bottom] = span(view.y, view.height, facts.height, facts.grid[0]);
    const [c0, c1, left, right] = span(view.x, view.width, facts.width, facts.grid[1]);
    return [r0, r1, c0, c1, top, bottom, left, right];
  }

  /** The finest part that shows an element, and the number of the cell in it. */
  find(place: Place): { part: Part; cell: number } | undefined {
    for (const part of [this.fine, this.base]) {
      const cell = part?.cell(place) ?? -1;
      if (part && cell >= 0) return { part, cell };
    }
    return undefined;
  }

  /** The element under a point of the canvas. */
  at(x: number, y: number): Place | undefined {
    const { box, view, facts } = this;
    if (!facts || x < box.x || y < (this.strip ? PAD : box.y) || x >= box.x + box.width || y >= box.y + box.height) return undefined;
    const sx = view.x + ((x - box.x) / box.width) * view.width;
    const sy = this.strip ? 0 : view.y + ((y - box.y) / box.height) * view.height;
    const [c, r] = [Math.floor(sx / (facts.width + this.gap)), Math.floor(sy / (facts.height + this.gap))];
    const place = { tile: r * facts.grid[1] + c, row: Math.floor(sy - r * (facts.height + this.gap)), column: Math.floor(sx - c * (facts.width + this.gap)) };
    return place.row < facts.height && place.column < facts.width && place.tile < facts.shown ? place : undefined;
  }

  private onSheet({ tile, row, column }: Place): { x: number; y: number } {
    const across = this.facts!.grid[1];
    return { x: (tile % across) * (this.facts!.width + this.gap) + column, y: Math.floor(tile / across) * (this.facts!.height + this.gap) + row };
  }

  /** Where rows and columns of a tile are on the canvas. */
  private place(tile: number, top: number, bottom: number, left: number, right: number): Box {
    const { box, view } = this;
    const { x, y } = this.onSheet({ tile, row: top, column: left });
    const [kx, ky] = [box.width / view.width, box.height / view.height];
    return { x: box.x + (x - view.x) * kx, y: box.y + (y - view.y) * ky, width: (right - left) * kx, height: (bottom - top) * ky };
  }

  /** Middle of an element on the canvas. */
  center(place: Place): [number, number] {
    const { x, y, width, height } = this.place(place.tile, place.row, place.row + 1, place.column, place.column + 1);
    return [x + width / 2, y + height / 2];
  }

  draw(context: CanvasRenderingContext2D, theme: Theme, scale: Scale | undefined, mean: boolean, cursor: Place | undefined, size: { width: number; height: number; ratio: number }): void {
    const { facts, base } = this;
    if (!facts || !base) return;
    this.fit(size.width - BAR - 2 * PAD, size.height - 2 * PAD);
    const { box } = this;
    context.save();
    context.beginPath();
    context.rect(box.x, box.y, box.width, box.height);
    context.clip();
    for (const part of this.fine ? [base, this.fine] : [base]) this.paint(context, part, scale, mean, theme, size.ratio);
    context.restore();
    if (this.strip && scale) this.bars(context, theme, scale, mean);
    if (cursor) this.mark(context, theme, cursor);
    if (scale) this.bar(context, theme, scale, size.height);
    this.edge(context, theme);
  }

  /** Elements of one picture of many are square; those of one matrix may be stretched to use the room there is. */
  private fit(roomX: number, roomY: number): void {
    const { sheet } = this;
    let [width, height] = [Math.max(20, roomX), Math.max(20, roomY)];
    if (this.strip) {
      const tall = Math.min(STRIP, height / 2);
      this.box = { x: PAD, y: PAD + height - tall, width, height: tall };
      return;
    }
    const [x, y] = [width / sheet.width, height / sheet.height];
    const tiled = this.facts!.shown > 1;
    const limit = tiled || Math.max(x / y, y / x) < SQUARE ? 1 : Math.min(sheet.width, sheet.height) < MANY ? STRETCH : SQUARE;
    const least = tiled ? 0 : 0.4;
    if (x > limit * y) width = Math.max(limit * y * sheet.width, least * width);
    if (y > limit * x) height = Math.max(limit * x * sheet.height, least * height);
    width = Math.min(width, LARGEST * sheet.width);
    height = Math.min(height, LARGEST * sheet.height);
    this.box = { x: PAD + (roomX - width) / 2, y: PAD + (roomY - height) / 2, width, height };
  }

  private image(part: Part, scale: Scale | undefined, mean: boolean): { canvas: HTMLCanvasElement; signs: [number, State][] } {
    const held = this.images.get(part);
    if (held && held.for === scale && held.mean === mean) return held;
    const canvas = document.createElement("canvas");
    canvas.width = part.columns;
    canvas.height = part.rows * part.tiles.length;
    const context = canvas.getContext("2d")!;
    const pixels = context.createImageData(canvas.width, canvas.height);
    const signs: [number, State][] = [];
    const bad = BAD_COLORS.map(rgb);
    for (let cell = 0; cell < part.length; cell++) {
      const state = part.state(cell);
      const value = part.value(cell, mean);
      if (state !== GOOD) signs.push([cell, state]);
      if (scale && Number.isFinite(value)) {
        const k = scale.color(value);
        for (let c = 0; c < 3; c++) pixels.data[4 * cell + c] = scale.table[k + c];
      } else if (state !== GOOD) pixels.data.set(bad[state], 4 * cell);
      pixels.data[4 * cell + 3] = 255;
    }
    if (signs.length > SIGNS) for (const [cell, state] of signs) pixels.data.set(bad[state], 4 * cell);
    context.putImageData(pixels, 0, 0);
    const made = { canvas, signs, for: scale!, mean };
    this.images.set(part, made);
    return made;
  }

  private paint(context: CanvasRenderingContext2D, part: Part, scale: Scale | undefined, mean: boolean, theme: Theme, ratio: number): void {
    const { canvas, signs } = this.image(part, scale, mean);
    const [, , , , top, bottom, left, right] = part.facts.window;
    const { box } = this;
    const snap = (value: number): number => Math.round(value * ratio) / ratio;
    let cell: Box = { x: 0, y: 0, width: 0, height: 0 };
    part.tiles.forEach((tile, k) => {
      const at = this.place(tile, top, bottom, left, right);
      if (k === 0) cell = { ...at, width: at.width / part.columns, height: at.height / part.rows };
      if (at.x > box.x + box.width || at.y > box.y + box.height || at.x + at.width < box.x || at.y + at.height < box.y) return;
      const [x, y] = [snap(at.x), snap(at.y)];
      context.imageSmoothingEnabled = cell.width * ratio < 1 || cell.height * ratio < 1;
      context.drawImage(canvas, 0, k * part.rows, part.columns, part.rows, x, y, snap(at.x + at.width) - x, snap(at.y + at.height) - y);
    });
    if (signs.length > SIGNS) return;
    // Where most of a region is bad, signs of the size of their cells show its form; a lone one is made large.
    const least = signs.length * 20 < part.length || part.length < 20 ? SIGN : 0;
    const region = new Path2D();
    for (const [number, state] of signs) {
      const column = number % part.columns;
      const row = Math.floor(number / part.columns) % part.rows;
      const at = this.place(part.tiles[Math.floor(number / part.columns / part.rows)], top, bottom, left, right);
      const [x, y] = [at.x + (column + 0.5) * cell.width, at.y + (row + 0.5) * cell.height];
      sign(context, state, x, y, Math.max(cell.width, least), Math.max(cell.height, least), theme);
      region.rect(x - cell.width / 2, y - cell.height / 2, cell.width, cell.height);
    }
    if (!least && Math.min(cell.width, cell.height) < SIGN) this.hatch(context, region);
  }

  /** Lines over cells too small for signs, so that they do not stand out by colour alone. */
  private hatch(context: CanvasRenderingContext2D, region: Path2D): void {
    const { x, y, width, height } = this.box;
    context.save();
    context.clip(region);
    context.strokeStyle = "rgb(255 255 255 / 0.45)";
    context.lineWidth = 1.5;
    context.beginPath();
    for (let k = -height; k < width; k += 8) {
      context.moveTo(x + k, y + height);
      context.lineTo(x + k + height, y);
    }
    context.stroke();
    context.restore();
  }

  /** The values of a vector as bars from zero, or from its lowest value where that is far from zero. */
  private bars(context: CanvasRenderingContext2D, theme: Theme, scale: Scale, mean: boolean): void {
    const { box, base, fine, view } = this;
    const part = fine ?? base!;
    const room = box.y - PAD - 12;
    if (room < 24) return;
    const low = Math.min(scale.low, scale.low > 0 && scale.low < scale.high / 2 ? 0 : scale.low);
    const high = scale.high < 0 && scale.high > scale.low / 2 ? 0 : scale.high;
    const toY = (value: number): number => PAD + (high > low ? (high - Math.min(high, Math.max(low, value))) / (high - low) : 0.5) * room;
    const zero = toY(Math.min(high, Math.max(low, 0)));
    const [, , , , , , left, right] = part.facts.window;
    const wide = ((right - left) / part.columns / view.width) * box.width;
    const start = box.x + ((left - view.x) / view.width) * box.width;
    context.fillStyle = theme.series[0];
    for (let cell = 0; cell < part.length; cell++) {
      const value = part.value(cell, mean);
      const x = start + cell * wide;
      if (!Number.isFinite(value) || x + wide < box.x || x > box.x + box.width) continue;
      const [from, to] = part.reduced ? [toY(part.field(cell, 0)), toY(part.field(cell, 1))] : [zero, toY(value)];
      const x0 = Math.max(box.x, x);
      context.fillRect(x0, Math.min(from, to), Math.max(0.75, Math.min(x + wide, box.x + box.width) - x0 - (wide > 4 ? 1 : 0)), Math.max(1, Math.abs(to - from)));
    }
    context.fillStyle = theme.quiet;
    context.fillRect(box.x, Math.round(zero), box.width, 1);
  }

  private mark(context: CanvasRenderingContext2D, theme: Theme, cursor: Place): void {
    const found = this.find(cursor);
    if (!found) return;
    const at = this.place(cursor.tile, ...found.part.span(cursor));
    const grow = Math.max(0, SIGN + 3 - Math.min(at.width, at.height)) / 2 + 1; // leaves a sign inside visible
    const { box } = this;
    if (at.x + at.width < box.x || at.x > box.x + box.width || at.y + at.height < box.y || at.y > box.y + box.height) return;
    for (const [color, width] of [[theme.surface, 4], [theme.accent, 2]] as const) {
      context.strokeStyle = color;
      context.lineWidth = width;
      context.strokeRect(at.x - grow, at.y - grow, at.width + 2 * grow, at.height + 2 * grow);
    }
  }

  private bar(context: CanvasRenderingContext2D, theme: Theme, scale: Scale, height: number): void {
    const x = this.box.x + this.box.width + 14;
    const [top, tall] = this.strip || this.box.height < 90 ? [PAD, height - 2 * PAD] : [this.box.y, this.box.height];
    const steps = Math.max(2, Math.round(tall));
    for (let k = 0; k < steps; k++) {
      const at = scale.shade(1 - (k + 0.5) / steps);
      context.fillStyle = `rgb(${scale.table[at]}, ${scale.table[at + 1]}, ${scale.table[at + 2]})`;
      context.fillRect(x, top + (k * tall) / steps, 11, tall / steps + 0.6);
    }
    context.strokeStyle = theme.line;
    context.lineWidth = 1;
    context.strokeRect(x + 0.5, top + 0.5, 10, tall - 1);
    context.font = `10px ${theme.font}`;
    context.textAlign = "left";
    context.textBaseline = "middle";
    for (const value of scale.low === scale.high ? [scale.low] : scale.ticks(Math.max(2, Math.floor(tall / 26)))) {
      const y = top + (1 - scale.height(value)) * tall;
      context.fillStyle = theme.quiet;
      context.fillRect(x + 11, Math.round(y), 3, 1);
      context.fillText(compact(value), x + 17, Math.max(top + 4, Math.min(top + tall - 4, y)));
    }
  }

  private edge(context: CanvasRenderingContext2D, theme: Theme): void {
    if (this.facts!.shown > 1 && !this.zoomed) return;
    context.strokeStyle = theme.line;
    context.lineWidth = 1;
    context.strokeRect(this.box.x - 0.5, this.box.y - 0.5, this.box.width + 1, this.box.height + 1);
  }
}

/** A cross for NaN, an arrow up or down for an infinity. */
export function sign(context: CanvasRenderingContext2D, state: State, x: number, y: number, width: number, height: number, theme: Theme): void {
  context.fillStyle = BAD_COLORS[state];
  context.fillRect(x - width / 2, y - height / 2, width, height);
  if (width === SIGN || height === SIGN) {
    context.strokeStyle = theme.surface;
    context.lineWidth = 1;
    context.strokeRect(x - width / 2, y - height / 2, width, height);
  }
  const arm = Math.min(width, height, 18) / 2 - 2;
  if (arm < 1) return;
  context.strokeStyle = "#ffffff";
  context.lineWidth = Math.max(1, arm / 4);
  context.beginPath();
  if (state === NAN) {
    context.moveTo(x - arm, y - arm);
    context.lineTo(x + arm, y + arm);
    context.moveTo(x + arm, y - arm);
    context.lineTo(x - arm, y + arm);
  } else {
    const tip = state === MINUS ? arm : -arm;
    context.moveTo(x, y - tip);
    context.lineTo(x, y + tip);
    context.moveTo(x - arm * 0.7, y + tip * 0.2);
    context.lineTo(x, y + tip);
    context.lineTo(x + arm * 0.7, y + tip * 0.2);
  }
  context.stroke();
}
