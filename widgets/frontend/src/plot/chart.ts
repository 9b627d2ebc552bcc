// One line chart on a rectangle of a canvas.

import type { Theme } from "../ui/theme";
import type { Series } from "./series";
import { compact } from "../ui/format";
import { ticks } from "./ticks";

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

/** A few percent of room above and below the finite values; a flat line gets room around it. */
export function valueRange(series: Series[]): Range {
  let low = Infinity;
  let high = -Infinity;
  for (const { y, length } of series) {
    for (let i = 0; i < length; i++) {
      if (y[i] < low && y[i] > -Infinity) low = y[i];
      if (y[i] > high && y[i] < Infinity) high = y[i];
    }
  }
  if (low > high) return { low: 0, high: 1 };
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
  constructor(
    private readonly context: CanvasRenderingContext2D,
    private readonly theme: Theme,
    private readonly area: Area,
    private readonly xRange: Range,
    private readonly yRange: Range,
  ) {}

  toX(value: number): number {
    return this.area.x + ((value - this.xRange.low) / (this.xRange.high - this.xRange.low || 1)) * this.area.width;
  }

  toY(value: number): number {
    return this.area.y + this.area.height - ((value - this.yRange.low) / (this.yRange.high - this.yRange.low || 1)) * this.area.height;
  }

  grid(xLabels: boolean): void {
    const { context, theme, area } = this;
    context.font = `10px ${theme.font}`;
    context.textBaseline = "middle";
    context.textAlign = "right";
    context.lineWidth = 1;
    for (const value of ticks(this.yRange.low, this.yRange.high, Math.max(2, Math.floor(area.height / 30)))) {
      const y = Math.round(this.toY(value)) + 0.5;
      this.rule(area.x, y, area.x + area.width, y, theme.line);
      context.fillStyle = theme.quiet;
      context.fillText(compact(value), area.x - 7, y);
    }
    if (!xLabels) return;
    const whole = ticks(this.xRange.low, this.xRange.high, Math.max(2, Math.floor(area.width / 70))).filter(Number.isInteger);
    for (const value of whole) {
      const x = this.toX(value);
      context.textAlign = x > area.x + area.width - 16 ? "right" : "center";
      context.fillText(compact(value), Math.min(x, area.x + area.width), area.y + area.height + 12);
    }
  }

  private rule(x0: number, y0: number, x1: number, y1: number, color: string): void {
    const { context } = this;
    context.strokeStyle = color;
    context.setLineDash([]);
    context.beginPath();
    context.moveTo(x0, y0);
    context.lineTo(x1, y1);
    context.stroke();
  }

  /** Every pixel column shows the span of its points, so that a spike is never lost. A point that is not finite is a gap. */
  line(series: Series, { color, dash, width, opacity }: Stroke): void {
    const { context, area } = this;
    context.save();
    context.beginPath();
    context.rect(area.x, area.y - 2, area.width + 1, area.height + 4);
    context.clip();
    context.strokeStyle = color;
    context.lineWidth = width;
    context.globalAlpha = opacity;
    context.lineJoin = "round";
    context.setLineDash(dash);
    context.beginPath();
    let drawing = false;
    for (let i = 0; i < series.length; ) {
      const column = Math.floor(this.toX(series.x[i]));
      let low = i;
      let high = i;
      let last = i;
      let gap = false;
      for (; i < series.length && Math.floor(this.toX(series.x[i])) === column; i++) {
        if (!Number.isFinite(series.y[i])) gap = true;
        if (series.y[i] < series.y[low] || !Number.isFinite(series.y[low])) low = i;
        if (series.y[i] > series.y[high] || !Number.isFinite(series.y[high])) high = i;
        last = i;
      }
      if (!Number.isFinite(series.y[low])) {
        drawing = false;
        continue;
      }
      for (const k of [...new Set([Math.min(low, high), Math.max(low, high), last])]) {
        if (!Number.isFinite(series.y[k])) continue;
        const [x, y] = [this.toX(series.x[k]), this.toY(series.y[k])];
        if (drawing) context.lineTo(x, y);
        else context.moveTo(x, y);
        drawing = true;
      }
      if (gap) drawing = Number.isFinite(series.y[last]);
    }
    context.stroke();
    context.restore();
    if (series.length <= (opacity < 1 ? 1 : 24)) this.dots(series, color);
  }

  /** Few points are marked one by one; a single one would otherwise not show at all. */
  private dots(series: Series, color: string): void {
    for (let i = 0; i < series.length; i++) if (Number.isFinite(series.y[i])) this.dot(series.x[i], series.y[i], color, 2.5);
  }

  dot(x: number, y: number, color: string, radius: number): void {
    const { context } = this;
    context.fillStyle = color;
    context.beginPath();
    context.arc(this.toX(x), this.toY(y), radius, 0, 2 * Math.PI);
    context.fill();
  }

  crosshair(x: number): void {
    const at = Math.round(this.toX(x)) + 0.5;
    this.rule(at, this.area.y, at, this.area.y + this.area.height, this.theme.quiet);
  }
}
