// One line chart on a rectangle of a canvas, or of an SVG that is written by the same calls.

import type { Theme } from "../../core/theme";
import { compact } from "../../core/format";
import { firstFrom, type Points } from "./series";
import { decades, ticks } from "../../core/ticks";

/** The part of a canvas context that charts draw with. */
export type Pen = Pick<
  CanvasRenderingContext2D,
  | "font" | "fillStyle" | "strokeStyle" | "lineWidth" | "lineJoin" | "globalAlpha" | "textAlign" | "textBaseline"
  | "beginPath" | "moveTo" | "lineTo" | "arc" | "rect" | "clip" | "stroke" | "fill" | "save" | "restore"
  | "setLineDash" | "fillText" | "measureText" | "fillRect"
>;

export interface Area {
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface Range {
  low: number;
  high: number;
}

/** The finite values between two places on the x axis, on a logarithmic scale the positive ones; undefined without any. */
export function extent(list: Points[], within: Range, log: boolean): Range | undefined {
  let low = Infinity;
  let high = -Infinity;
  const least = log ? Number.MIN_VALUE : -Number.MAX_VALUE;
  for (const { x, y, length } of list) {
    for (let i = 0; i < length; i++) {
      const value = y[i];
      if (value < least || value === Infinity || x[i] < within.low || x[i] > within.high) continue;
      if (value < low) low = value;
      if (value > high) high = value;
    }
  }
  return low <= high ? { low, high } : undefined;
}

/** A few percent of room above and below; a flat line gets room around it, and what is nearly zero begins there. */
export function withRoom({ low, high }: Range, log: boolean): Range {
  if (log) {
    const room = Math.max(1.05, (high / low) ** 0.06);
    return { low: low / room, high: high * room };
  }
  const room = high > low ? 0.06 * (high - low) : Math.max(0.05 * Math.abs(high), 1e-3);
  return { low: low >= 0 && low < room ? 0 : low - room, high: high + room };
}

export interface Stroke {
  color: string;
  dash: number[];
  width: number;
  opacity: number;
}

export class Chart {
  private readonly floor: number;
  private readonly span: number;

  constructor(
    private readonly pen: Pen,
    private readonly theme: Theme,
    readonly area: Area,
    private readonly xRange: Range,
    private readonly yRange: Range,
    private readonly log: boolean,
  ) {
    this.floor = log ? Math.log10(yRange.low) : yRange.low;
    this.span = (log ? Math.log10(yRange.high) : yRange.high) - this.floor || 1;
  }

  toX(value: number): number {
    return this.area.x + ((value - this.xRange.low) / (this.xRange.high - this.xRange.low || 1)) * this.area.width;
  }

  toY(value: number): number {
    const at = this.log ? Math.log10(value) : value;
    return this.area.y + this.area.height - ((at - this.floor) / this.span) * this.area.height;
  }

  private drawable(value: number): boolean {
    return Number.isFinite(value) && (!this.log || value > 0);
  }

  grid(xLabels: boolean, xTitle: string): void {
    const { pen, theme, area } = this;
    pen.font = `10px ${theme.font}`;
    pen.textBaseline = "middle";
    pen.textAlign = "right";
    pen.lineWidth = 1;
    const count = Math.max(3, Math.floor(area.height / 30));
    const { low, high } = this.yRange;
    for (const value of this.log ? decades(low, high, count) : ticks(low, high, count)) {
      const y = Math.round(this.toY(value)) + 0.5;
      this.rule(area.x, y, area.x + area.width, y, theme.line);
      pen.fillStyle = theme.quiet;
      pen.fillText(compact(value), area.x - 7, y);
    }
    if (!xLabels) return;
    const y = area.y + area.height + 12;
    pen.fillStyle = theme.quiet;
    pen.fillText(xTitle, area.x - 7, y);
    const values = ticks(this.xRange.low, this.xRange.high, Math.max(2, Math.floor(area.width / 70)));
    for (const value of xTitle === "step" ? values.filter(Number.isInteger) : values) {
      const x = this.toX(value);
      if (x < area.x + 8) continue; // the title is there
      pen.textAlign = x > area.x + area.width - 16 ? "right" : "center";
      pen.fillText(compact(value), Math.min(x, area.x + area.width), y);
    }
  }

  private rule(x0: number, y0: number, x1: number, y1: number, color: string): void {
    const { pen } = this;
    pen.strokeStyle = color;
    pen.setLineDash([]);
    pen.beginPath();
    pen.moveTo(x0, y0);
    pen.lineTo(x1, y1);
    pen.stroke();
  }

  /** Every pixel column shows the span of its points, so that a spike is never lost. A point that is not finite is a gap. */
  line(points: Points, { color, dash, width, opacity }: Stroke, dots: boolean): void {
    const { pen, area, xRange } = this;
    const { x, y, length } = points;
    pen.save();
    pen.beginPath();
    pen.rect(area.x - 3, area.y - 3, area.width + 6, area.height + 6); // dots at the edge stay whole
    pen.clip();
    pen.strokeStyle = color;
    pen.lineWidth = width;
    pen.globalAlpha = opacity;
    pen.lineJoin = "round";
    pen.setLineDash(dash);
    pen.beginPath();
    const column = (xRange.high - xRange.low) / area.width;
    const begin = Math.max(0, firstFrom(x, length, xRange.low) - 1);
    let drawing = false;
    let i = begin;
    for (; i < length; ) {
      const left = xRange.low + Math.floor((x[i] - xRange.low) / column) * column;
      const right = left + column;
      if (left > xRange.high + column) break;
      let low = -1;
      let high = -1;
      let last = i;
      let broken = false;
      do {
        const value = y[i];
        if (!this.drawable(value)) broken = true;
        else {
          if (low < 0 || value < y[low]) low = i;
          if (high < 0 || value > y[high]) high = i;
        }
        last = i++;
      } while (i < length && x[i] < right && x[i] >= left);
      if (low < 0) {
        drawing = false;
        continue;
      }
      const [one, two] = low < high ? [low, high] : [high, low];
      drawing = this.to(x[one], y[one], drawing);
      if (two !== one) this.to(x[two], y[two], true);
      if (last !== two && this.drawable(y[last])) this.to(x[last], y[last], true);
      if (broken) drawing = this.drawable(y[last]);
    }
    pen.stroke();
    // Few points are marked one by one; a single one would otherwise not show at all.
    if (dots && i - begin <= 26) {
      for (let k = begin; k < i; k++) if (this.drawable(y[k])) this.dot(x[k], y[k], color, 2.5);
    }
    pen.restore();
  }

  private to(x: number, y: number, drawing: boolean): boolean {
    if (drawing) this.pen.lineTo(this.toX(x), this.toY(y));
    else this.pen.moveTo(this.toX(x), this.toY(y));
    return true;
  }

  dot(x: number, y: number, color: string, radius: number): void {
    if (!this.drawable(y)) return;
    const { pen } = this;
    pen.fillStyle = color;
    pen.beginPath();
    pen.arc(this.toX(x), this.toY(y), radius, 0, 2 * Math.PI);
    pen.fill();
  }

  crosshair(x: number): void {
    const at = Math.round(this.toX(x)) + 0.5;
    this.rule(at, this.area.y, at, this.area.y + this.area.height, this.theme.quiet);
  }

  /** A place on the x axis, as text on it. */
  mark(x: number, text: string): void {
    const { pen, theme, area } = this;
    pen.font = `600 10px ${theme.font}`;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    const half = pen.measureText(text).width / 2 + 5;
    const at = Math.min(Math.max(this.toX(x), area.x + half), area.x + area.width - half + 8);
    pen.fillStyle = theme.ink;
    pen.fillRect(at - half, area.y + area.height + 4, 2 * half, 16);
    pen.fillStyle = theme.surface;
    pen.fillText(text, at, area.y + area.height + 12);
  }

  band({ low, high }: Range): void {
    const { pen, area } = this;
    pen.globalAlpha = 0.15;
    pen.fillStyle = this.theme.accent;
    pen.fillRect(this.toX(low), area.y, this.toX(high) - this.toX(low), area.height);
    pen.globalAlpha = 1;
  }
}
