// What is shown, as a file: a picture in SVG or PNG, the points as CSV.

import { coordinate, escapeXml } from "../../core/files";
import type { Pen, Range } from "./chart";
import type { Line } from "./picture";
import type { PlotStore } from "./series";
import { hasAxis, onAxis } from "./transform";

/** Writes as SVG what charts draw with. Text is measured by a canvas. */
export class SvgPen implements Pen {
  font = "";
  fillStyle = "";
  strokeStyle = "";
  lineWidth = 1;
  lineJoin: CanvasLineJoin = "round";
  globalAlpha = 1;
  textAlign: CanvasTextAlign = "left";
  textBaseline: CanvasTextBaseline = "middle";
  private dash: number[] = [];
  private path = "";
  private box = "";
  private clips = 0;
  private open: boolean[] = [];
  private readonly parts: string[] = [];

  constructor(private readonly ruler: CanvasRenderingContext2D) {}

  beginPath(): void {
    this.path = "";
  }

  moveTo(x: number, y: number): void {
    this.path += `M${coordinate(x)} ${coordinate(y)}`;
  }

  lineTo(x: number, y: number): void {
    this.path += `L${coordinate(x)} ${coordinate(y)}`;
  }

  /** A whole circle, which is all that charts draw. */
  arc(x: number, y: number, radius: number): void {
    this.path += `M${coordinate(x - radius)} ${coordinate(y)}a${radius} ${radius} 0 1 0 ${2 * radius} 0a${radius} ${radius} 0 1 0 ${-2 * radius} 0`;
  }

  rect(x: number, y: number, width: number, height: number): void {
    this.box = `x="${coordinate(x)}" y="${coordinate(y)}" width="${coordinate(width)}" height="${coordinate(height)}"`;
  }

  clip(): void {
    const id = `clip${this.clips++}`;
    this.parts.push(`<clipPath id="${id}"><rect ${this.box}/></clipPath><g clip-path="url(#${id})">`);
    this.open[this.open.length - 1] = true;
  }

  save(): void {
    this.open.push(false);
  }

  restore(): void {
    if (this.open.pop()) this.parts.push("</g>");
    this.dash = [];
    this.globalAlpha = 1;
  }

  setLineDash(dash: number[]): void {
    this.dash = dash;
  }

  stroke(): void {
    const dash = this.dash.length ? ` stroke-dasharray="${this.dash.join(" ")}"` : "";
    this.shape(`fill="none" stroke="${this.strokeStyle}" stroke-width="${this.lineWidth}" stroke-linejoin="round" opacity="${this.globalAlpha}"${dash}`);
  }

  fill(): void {
    this.shape(`fill="${this.fillStyle}" opacity="${this.globalAlpha}"`);
  }

  private shape(style: string): void {
    if (this.path) this.parts.push(`<path d="${this.path}" ${style}/>`);
  }

  fillRect(x: number, y: number, width: number, height: number): void {
    this.rect(x, y, width, height);
    this.parts.push(`<rect ${this.box} fill="${this.fillStyle}" opacity="${this.globalAlpha}"/>`);
  }

  fillText(text: string, x: number, y: number): void {
    const anchor = { right: "end", center: "middle" }[this.textAlign as string] ?? "start";
    const style = `style="font:${escapeXml(this.font)}" fill="${this.fillStyle}" text-anchor="${anchor}" dominant-baseline="central"`;
    this.parts.push(`<text x="${coordinate(x)}" y="${coordinate(y)}" ${style}>${escapeXml(text)}</text>`);
  }

  measureText(text: string): TextMetrics {
    this.ruler.font = this.font;
    return this.ruler.measureText(text);
  }

  finish(width: number, height: number, paper: string): string {
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}"><title>Training curves</title><rect width="100%" height="100%" fill="${paper}"/>${this.parts.join("")}</svg>`;
  }
}

/** One line per point that is shown; run 0 is the present one. Spreadsheets take no formula from a name. */
export function toCsv(store: PlotStore, lines: Iterable<Line>, zoom: Range | undefined): string {
  const rows = ["run,metric,curve,step,epoch,seconds,value"];
  for (const { series, raw } of lines) {
    const [epoch, seconds] = ["epoch", "seconds"].map((kind) => (hasAxis(store, kind) ? onAxis(store, series, kind).slice() : undefined));
    const head = `${series.age},${quoted(series.panel)},${quoted(series.name)}`;
    for (let i = 0; i < series.length; i++) {
      if (zoom && (raw.x[i] < zoom.low || raw.x[i] > zoom.high)) continue;
      rows.push([head, series.x[i], epoch ? sixDigits(epoch[i]) : "", seconds ? sixDigits(seconds[i]) : "", series.y[i]].join(","));
    }
  }
  return rows.join("\n") + "\n";
}

function sixDigits(value: number): number {
  return Number(value.toPrecision(6));
}

function quoted(text: string): string {
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
