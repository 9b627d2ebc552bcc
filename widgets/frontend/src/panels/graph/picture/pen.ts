// One way of drawing for the screen and for export: a pen on a canvas, and a pen that writes SVG.

import { textWidth } from "../model/text";
import { shortened } from "../../../core/cut";
import { coordinate, escapeXml } from "../../../core/files";

export interface TextStyle {
  size: number;
  weight?: number;
  color: string;
  align?: "left" | "center" | "right";
}

export interface Pen {
  /** Opacity of all that follows, from 0 to 1. */
  opacity(value: number): void;
  box(x: number, y: number, width: number, height: number, radius: number, paint: { fill?: string; stroke?: string; width?: number; dash?: number[] }): void;
  begin(): void;
  move(x: number, y: number): void;
  line(x: number, y: number): void;
  curve(x1: number, y1: number, x2: number, y2: number, x: number, y: number): void;
  stroke(color: string, width: number, dash?: number[]): void;
  fill(color: string): void;
  /** Text with its middle line at `y`. */
  text(value: string, x: number, y: number, style: TextStyle): void;
  measure(value: string, size: number, weight?: number): number;
}

/** Text cut to a width with an ellipsis, and the width it takes. */
export function fitText(pen: Pen, text: string, size: number, weight: number, width: number): { text: string; width: number } {
  const full = pen.measure(text, size, weight);
  if (full <= width || text.length < 4) return { text, width: full };
  let low = 1; // characters that are known to fit
  let high = text.length;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (pen.measure(shortened(text, middle), size, weight) <= width) low = middle;
    else high = middle;
  }
  const cut = shortened(text, low);
  return { text: cut, width: pen.measure(cut, size, weight) };
}

export class CanvasPen implements Pen {
  constructor(private readonly context: CanvasRenderingContext2D, private readonly font: string) {
    context.textBaseline = "middle";
    context.lineJoin = "round";
  }

  opacity(value: number): void {
    this.context.globalAlpha = value;
  }

  box(x: number, y: number, width: number, height: number, radius: number, paint: { fill?: string; stroke?: string; width?: number; dash?: number[] }): void {
    const { context } = this;
    if (!radius && !paint.stroke && paint.fill) { // a patch, of which there may be thousands
      context.fillStyle = paint.fill;
      context.fillRect(x, y, width, height);
      return;
    }
    context.beginPath();
    if (radius > 0) context.roundRect(x, y, width, height, radius);
    else context.rect(x, y, width, height);
    if (paint.fill) this.fill(paint.fill);
    if (paint.stroke) this.stroke(paint.stroke, paint.width ?? 1, paint.dash);
  }

  begin(): void {
    this.context.beginPath();
  }

  move(x: number, y: number): void {
    this.context.moveTo(x, y);
  }

  line(x: number, y: number): void {
    this.context.lineTo(x, y);
  }

  curve(x1: number, y1: number, x2: number, y2: number, x: number, y: number): void {
    this.context.bezierCurveTo(x1, y1, x2, y2, x, y);
  }

  stroke(color: string, width: number, dash: number[] = []): void {
    const { context } = this;
    context.strokeStyle = color;
    context.lineWidth = width;
    context.setLineDash(dash);
    context.stroke();
  }

  fill(color: string): void {
    this.context.fillStyle = color;
    this.context.fill();
  }

  text(value: string, x: number, y: number, { size, weight = 400, color, align = "left" }: TextStyle): void {
    const { context } = this;
    context.font = `${weight} ${size}px ${this.font}`;
    context.textAlign = align;
    context.fillStyle = color;
    context.fillText(value, x, y);
  }

  measure(value: string, size: number, weight = 400): number {
    this.context.font = `${weight} ${size}px ${this.font}`;
    return this.context.measureText(value).width;
  }
}

export class SvgPen implements Pen {
  private readonly parts: string[] = [];
  private path = "";
  private faint = "";

  constructor(private readonly font: string) {}

  opacity(value: number): void {
    this.faint = value < 1 ? ` opacity="${coordinate(value)}"` : "";
  }

  box(x: number, y: number, width: number, height: number, radius: number, paint: { fill?: string; stroke?: string; width?: number; dash?: number[] }): void {
    const stroke = paint.stroke ? this.strokeAttributes(paint.stroke, paint.width ?? 1, paint.dash) : "";
    const size = `x="${coordinate(x)}" y="${coordinate(y)}" width="${coordinate(width)}" height="${coordinate(height)}" rx="${coordinate(radius)}"`;
    this.parts.push(`<rect ${size} fill="${escapeXml(paint.fill ?? "none")}"${stroke}${this.faint}/>`);
  }

  begin(): void {
    this.path = "";
  }

  move(x: number, y: number): void {
    this.path += `M${coordinate(x)} ${coordinate(y)}`;
  }

  line(x: number, y: number): void {
    this.path += `L${coordinate(x)} ${coordinate(y)}`;
  }

  curve(x1: number, y1: number, x2: number, y2: number, x: number, y: number): void {
    this.path += `C${[x1, y1, x2, y2, x, y].map(coordinate).join(" ")}`;
  }

  stroke(color: string, width: number, dash?: number[]): void {
    if (this.path) this.parts.push(`<path d="${this.path}" fill="none"${this.strokeAttributes(color, width, dash)}${this.faint}/>`);
  }

  fill(color: string): void {
    if (this.path) this.parts.push(`<path d="${this.path}" fill="${escapeXml(color)}"${this.faint}/>`);
  }

  text(value: string, x: number, y: number, { size, weight = 400, color, align = "left" }: TextStyle): void {
    const anchor = { left: "start", center: "middle", right: "end" }[align];
    const place = `x="${coordinate(x)}" y="${coordinate(y)}" font-size="${size}" font-weight="${weight}" text-anchor="${anchor}"`;
    this.parts.push(`<text ${place} dominant-baseline="central" fill="${escapeXml(color)}"${this.faint}>${escapeXml(value)}</text>`);
  }

  measure(value: string, size: number): number {
    return textWidth(value, size);
  }

  private strokeAttributes(color: string, width: number, dash: number[] = []): string {
    return ` stroke="${escapeXml(color)}" stroke-width="${coordinate(width)}"${dash.length ? ` stroke-dasharray="${dash.join(" ")}"` : ""}`;
  }

  finish(x: number, y: number, width: number, height: number, background: string, title: string): string {
    const box = [x, y, width, height].map(coordinate).join(" ");
    return (
      `<svg xmlns="http://www.w3.org/2000/svg" viewBox="${box}" width="${coordinate(width)}" height="${coordinate(height)}" ` +
      `font-family="${escapeXml(this.font)}" role="img"><title>${escapeXml(title)}</title>` +
      `<rect x="${coordinate(x)}" y="${coordinate(y)}" width="100%" height="100%" fill="${escapeXml(background)}"/>${this.parts.join("")}</svg>`
    );
  }
}
