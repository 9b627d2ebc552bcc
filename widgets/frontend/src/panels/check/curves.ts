// Two charts of one element: the loss along it with the slopes, and the error of central differences by their step.

import { Cleanup } from "../../core/afm";
import { element, everyFrame, Surface } from "../../core/dom";
import { compact } from "../../core/format";
import { ticks } from "../../core/ticks";
import { themeOf, type Theme } from "../../core/theme";
import type { Curve } from "./store";

interface Area {
  x: number;
  y: number;
  width: number;
  height: number;
}

interface Axis {
  low: number;
  high: number;
}

type Point = readonly [number, number];

interface Stroke {
  color: string;
  width: number;
  dash: number[];
  opacity?: number;
}

const LEAST_WIDTH = 200; // of a chart, in pixels
const LEAST_HEIGHT = 130;

export interface CurveView {
  show(curve: Curve | undefined, zoom: number): void;
  dispose(): void;
}

/** How many spans a curve has, and the half width of one. */
export const zooms = ({ offsets, points }: Curve): number => offsets.length / points;
export const halfWidth = ({ offsets, points }: Curve, zoom: number): number => offsets[(zoom + 1) * points - 1];

export function curveView(host: HTMLElement): CurveView {
  const cleanup = new Cleanup();
  const stage = element("div", { class: "gw-curves", role: "img" });
  host.append(stage);
  let curve: Curve | undefined;
  let zoom = 0;
  const frame = everyFrame(draw);
  const theme = themeOf(stage, cleanup, frame.request);
  const surface = new Surface(stage, () => draw());

  function draw(): void {
    const colors = theme();
    if (!colors || !surface.begin() || !curve) return;
    const { width, height } = surface;
    if (width >= 2.6 * LEAST_WIDTH || (height < 2 * LEAST_HEIGHT && width >= 2 * LEAST_WIDTH)) {
      const half = width / 2;
      drawLoss(surface.context, colors, curve, zoom, { x: 0, y: 0, width: half - 8, height });
      drawSteps(surface.context, colors, curve, { x: half + 8, y: 0, width: half - 8, height });
    } else {
      const half = height / 2;
      drawLoss(surface.context, colors, curve, zoom, { x: 0, y: 0, width, height: half });
      drawSteps(surface.context, colors, curve, { x: 0, y: half, width, height: half });
    }
  }

  return {
    show(next, at) {
      [curve, zoom] = [next, at];
      if (next) stage.setAttribute("aria-label", next.text);
      frame.request();
    },
    dispose() {
      cleanup.run();
      frame.cancel();
      surface.dispose();
      stage.remove();
    },
  };
}

function drawLoss(context: CanvasRenderingContext2D, theme: Theme, curve: Curve, zoom: number, area: Area): void {
  const { points, offsets, changes, analytic, numeric, left, right, verdict } = curve;
  const from = zoom * points;
  const line: Point[] = Array.from({ length: points }, (_, k) => [offsets[from + k], changes[from + k]]);
  const h = halfWidth(curve, zoom);
  const values = line.map(([, y]) => y).filter(Number.isFinite);
  // The slopes widen the chart only so far: a wrong one may leave it.
  const span = Math.max(...values.map(Math.abs), Number.MIN_VALUE);
  for (const slope of [analytic, numeric]) if (Number.isFinite(slope)) values.push(...[-1, 1].map((s) => Math.max(-1.5 * span, Math.min(1.5 * span, s * slope * h))));
  const kink = verdict === "kink";
  const chart = new Chart(context, theme, area, { low: -h, high: h }, spread(values));
  const claimed = theme.series[1];
  const measured: Stroke = { color: theme.series[2], width: 6, dash: [], opacity: 0.4 }; // the loss lies on it
  chart.title([
    ["loss", { color: theme.series[0], width: 2, dash: [] }],
    ["gradient", { color: claimed, width: 2, dash: [5, 3] }],
    [kink ? "left and right" : "measured", measured],
  ]);
  chart.axes(ticks, (x) => (x > 0 ? `+${compact(x)}` : compact(x)), compact);
  if (kink) {
    chart.line([[-h, -left * h], [0, 0]], measured);
    chart.line([[0, 0], [h, right * h]], measured);
  } else chart.line([[-h, -numeric * h], [h, numeric * h]], measured);
  chart.line([[-h, -analytic * h], [h, analytic * h]], { color: claimed, width: 1.6, dash: [5, 3] });
  chart.line(line, { color: theme.series[0], width: 1.6, dash: [] }, 2);
  chart.dot([0, 0], theme.ink, 3);
}

function drawSteps(context: CanvasRenderingContext2D, theme: Theme, { steps, errors, floor }: Curve, area: Area): void {
  const log = (values: Float64Array): number[] => Array.from(values, (v) => (v > 0 ? Math.log10(v) : v === 0 ? -18 : NaN));
  const x = log(steps);
  const [error, noise] = [log(errors), log(floor)].map((y) => y.map((v, k): Point => [x[k], v]));
  const seen = [...error, ...noise].map(([, y]) => y).filter((y) => Number.isFinite(y) && y > -18);
  const low = Math.max(-18, Math.floor(Math.min(-1, ...seen)));
  const high = Math.min(6, Math.ceil(Math.max(0, ...seen)));
  const chart = new Chart(context, theme, area, { low: Math.min(...x), high: Math.max(...x) }, { low, high });
  chart.title([
    ["error by step", { color: theme.series[3], width: 2, dash: [] }],
    ["rounding", { color: theme.quiet, width: 1.5, dash: [2, 2] }],
  ]);
  chart.axes((a, b, n) => ticks(a, b, n).filter(Number.isInteger), power, power);
  chart.line(noise, { color: theme.quiet, width: 1.5, dash: [2, 2] });
  chart.line(error, { color: theme.series[3], width: 1.6, dash: [] }, 2);
}

const power = (value: number): string => (value === 0 ? "1" : `1e${value < 0 ? "−" : ""}${Math.abs(value)}`);

function spread(values: number[]): Axis {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const room = high > low ? 0.08 * (high - low) : Math.abs(high) || 1;
  return { low: low - room, high: high + room };
}

/** A small chart with a legend for a title. */
class Chart {
  private readonly area: Area;

  constructor(
    private readonly context: CanvasRenderingContext2D,
    private readonly theme: Theme,
    private readonly outer: Area,
    private readonly x: Axis,
    private readonly y: Axis,
  ) {
    this.area = { x: outer.x + 56, y: outer.y + 22, width: Math.max(10, outer.width - 66), height: Math.max(10, outer.height - 42) };
  }

  private at([x, y]: Point): Point {
    const { area } = this;
    const across = (x - this.x.low) / (this.x.high - this.x.low || 1);
    const up = (y - this.y.low) / (this.y.high - this.y.low || 1);
    return [area.x + across * area.width, area.y + (1 - up) * area.height];
  }

  private pen({ color, width, dash, opacity }: Stroke): void {
    this.context.globalAlpha = opacity ?? 1;
    this.context.strokeStyle = color;
    this.context.lineWidth = width;
    this.context.setLineDash(dash);
  }

  title(entries: [string, Stroke][]): void {
    const { context, theme } = this;
    let x = this.outer.x + 12;
    const y = this.outer.y + 10;
    const [sample, gap] = this.outer.width < 240 ? [10, 8] : [18, 14];
    context.font = `${this.outer.width < 240 ? 10 : 11}px ${theme.font}`;
    context.textAlign = "left";
    context.textBaseline = "middle";
    for (const [label, stroke] of entries) {
      this.pen(stroke);
      this.path([[x, y], [x + sample, y]]);
      context.globalAlpha = 1;
      context.fillStyle = theme.quiet;
      context.fillText(label, x + sample + 5, y);
      x += sample + 5 + context.measureText(label).width + gap;
    }
    context.setLineDash([]);
  }

  axes(places: (low: number, high: number, count: number) => number[], xText: (x: number) => string, yText: (y: number) => string): void {
    const { context, theme, area } = this;
    context.font = `10px ${theme.font}`;
    context.fillStyle = theme.quiet;
    this.pen({ color: theme.line, width: 1, dash: [] });
    context.textAlign = "right";
    for (const value of places(this.y.low, this.y.high, Math.max(2, Math.floor(area.height / 28)))) {
      const y = Math.round(this.at([0, value])[1]) + 0.5;
      this.path([[area.x, y], [area.x + area.width, y]]);
      context.fillText(yText(value), area.x - 6, y);
    }
    context.textAlign = "center";
    for (const value of places(this.x.low, this.x.high, Math.max(3, Math.floor(area.width / 60)))) {
      context.fillText(xText(value), this.at([value, 0])[0], area.y + area.height + 11);
    }
  }

  private path(points: readonly Point[]): void {
    const { context } = this;
    context.beginPath();
    let drawing = false;
    for (const [x, y] of points) {
      if (!Number.isFinite(x) || !Number.isFinite(y)) drawing = false;
      else if (drawing) context.lineTo(x, y);
      else {
        context.moveTo(x, y);
        drawing = true;
      }
    }
    context.stroke();
  }

  /** A line inside the chart, its points as dots if `radius` is given. A point that is not finite is a gap. */
  line(points: readonly Point[], stroke: Stroke, radius = 0): void {
    const { context, area } = this;
    context.save();
    context.beginPath();
    context.rect(area.x, area.y - 3, area.width + 3, area.height + 6);
    context.clip();
    this.pen(stroke);
    this.path(points.map((p) => this.at(p)));
    context.restore();
    context.setLineDash([]);
    if (radius) for (const p of points) if (Number.isFinite(p[1])) this.dot(p, stroke.color, radius);
  }

  dot(point: Point, color: string, radius: number): void {
    const [x, y] = this.at(point);
    if (y < this.area.y - 4 || y > this.area.y + this.area.height + 4) return;
    this.context.fillStyle = color;
    this.context.beginPath();
    this.context.arc(x, y, radius, 0, 2 * Math.PI);
    this.context.fill();
  }
}
