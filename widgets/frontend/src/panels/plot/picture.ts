// The picture of all charts, one below the other over the same x axis; drawn to a canvas or written as SVG.

import { compact } from "../../core/format";
import type { Theme } from "../../core/theme";
import { Chart, extent, withRoom, type Pen, type Range, type Stroke } from "./chart";
import { nearest, type Points, type PlotStore, type Series } from "./series";
import { onAxis, smooth } from "./transform";

const LEFT = 52;
const RIGHT = 14;
const TITLE = 24;
const BOTTOM = 22;
const MEANS = ["train", "validation"]; // of whole epochs where single steps are drawn beside them, and smooth as they are
export const DASHES = [[], [5, 3], [2, 2], [8, 3, 2, 3]];

/** What is drawn, and how. */
export interface Look {
  axis: string;
  smoothing: number;
  log: boolean;
  /** Metrics by choice; none for all that are not on demand. */
  metrics: readonly string[];
  /** Part of the x axis that is shown, and the one that is being marked. */
  zoom?: Range;
  band?: Range;
  /** Place of the crosshair on the x axis. */
  hover?: number;
}

export interface Line {
  series: Series;
  raw: Points;
  /** The raw points if nothing is smoothed. */
  shown: Points;
}

/** The lines of every metric that is shown, the present run before earlier ones. */
export function panels(store: PlotStore, look: Look): Map<string, Line[]> {
  const found = new Map<string, Line[]>();
  const ordered = [...store.series].sort((a, b) => a.age - b.age);
  for (const series of ordered) {
    const { panel, length } = series;
    const chosen = look.metrics.length ? look.metrics.includes(panel) : !store.onDemand.includes(panel);
    if (!chosen || !length) continue;
    const raw = { x: onAxis(store, series, look.axis), y: series.y, length };
    const mean = panel === "learning_rate" || (MEANS.includes(series.name) && ordered.some((other) => other.panel === panel && other.name === "step"));
    const line = { series, raw, shown: look.smoothing > 0 && !mean ? { ...raw, y: smooth(series, look.smoothing) } : raw };
    const list = found.get(panel);
    if (list) list.push(line);
    else found.set(panel, [line]);
  }
  return found;
}

/** From the first to the last point of all lines. */
export function reach(lines: Iterable<Line>): Range {
  let low = Infinity;
  let high = -Infinity;
  for (const { raw } of lines) {
    low = Math.min(low, raw.x[0]);
    high = Math.max(high, raw.x[raw.length - 1]);
  }
  return { low, high: high > low ? high : low + 1 };
}

/** The last value of every line, in words. */
export function describe(found: Map<string, Line[]>): string {
  const parts = [...found].flatMap(([title, lines]) =>
    lines.filter(({ series }) => !series.age).map(({ series, raw }) => `${title} ${series.name} ${compact(raw.y[raw.length - 1])}`),
  );
  return `Training curves; last values: ${parts.join(", ")}`;
}

/** Names of the lines in the order of their colours. */
function names(found: Map<string, Line[]>): string[] {
  return [...new Set([...found.values()].flat().map(({ series }) => series.name))];
}

/** Looks follow the name of a curve, so that they agree between charts; earlier runs fade. */
function stroke(theme: Theme, all: string[], { name, age, slot }: Series): Stroke {
  const known: Record<string, number> = { step: 0, train: 0, validation: 1 };
  const k = slot ?? known[name] ?? 2 + all.filter((other) => known[other] === undefined).indexOf(name);
  const single = name === "step";
  return {
    color: theme.series[k % theme.series.length],
    dash: DASHES[k % DASHES.length],
    width: single ? 1 : 1.6,
    opacity: (single && all.includes("train") ? 0.45 : single ? 0.8 : 1) * 0.4 ** Math.min(age, 2),
  };
}

/** Draws everything; returns the charts, to find places on them. */
export function paint(pen: Pen, width: number, height: number, theme: Theme, store: PlotStore, look: Look): Chart[] {
  const found = panels(store, look);
  if (!found.size) return [];
  const all = names(found);
  const each = (height - BOTTOM) / found.size;
  const x = look.zoom ?? reach([...found.values()].flat());
  const charts: Chart[] = [];
  for (const [title, lines] of found) {
    const k = charts.length;
    const area = { x: LEFT, y: k * each + TITLE, width: Math.max(10, width - LEFT - RIGHT), height: Math.max(10, each - TITLE - 6) };
    const raw = lines.map((line) => line.raw);
    const positive = look.log ? extent(raw, x, true) : undefined;
    const range = withRoom(positive ?? extent(raw, x, false) ?? { low: 0, high: 1 }, !!positive);
    const chart = new Chart(pen, theme, area, x, range, !!positive);
    charts.push(chart);
    const last = charts.length === found.size;
    chart.grid(last, look.axis);
    if (look.band) chart.band(look.band);
    if (look.hover !== undefined) chart.crosshair(look.hover);
    for (const { series, raw, shown } of [...lines].reverse()) {
      const style = stroke(theme, all, series);
      if (shown === raw) chart.line(raw, style, !series.age);
      else {
        chart.line(raw, { ...style, dash: [], width: 1, opacity: 0.3 * style.opacity }, false);
        chart.line(shown, { ...style, width: 1.6, opacity: series.name === "step" ? Math.max(style.opacity, 0.8 * 0.4 ** series.age) : style.opacity }, !series.age);
      }
    }
    heading(pen, theme, chart, title, lines, all, look.hover);
    if (last && look.hover !== undefined) chart.mark(look.hover, compact(look.hover));
  }
  return charts;
}

/** The quantity on the left, each curve with its value, the last one or the one under the pointer, on the right. */
function heading(pen: Pen, theme: Theme, chart: Chart, title: string, lines: Line[], all: string[], hover: number | undefined): void {
  const { area } = chart;
  const y = area.y - TITLE / 2;
  pen.textBaseline = "middle";
  pen.textAlign = "left";
  pen.font = `600 11.5px ${theme.font}`;
  pen.fillStyle = theme.ink;
  pen.fillText(title, 12, y);
  const titleEnd = 12 + pen.measureText(title).width;
  let right = area.x + area.width;
  pen.textAlign = "right";
  for (const { series, shown } of lines.filter((line) => !line.series.age).reverse()) {
    // Steps share the colour of their means, and have an entry of their own only under the pointer.
    if (series.name === "step" && hover === undefined && lines.some((line) => line.series.name === "train")) continue;
    const i = hover === undefined ? shown.length - 1 : nearest(shown, hover);
    const style = stroke(theme, all, series);
    if (hover !== undefined) chart.dot(shown.x[i], shown.y[i], style.color, 3);
    pen.font = `600 11px ${theme.font}`;
    const value = compact(shown.y[i]);
    const room = pen.measureText(value).width + 6;
    pen.font = `11px ${theme.font}`;
    if (right - room - pen.measureText(series.name).width - 22 < titleEnd) break;
    pen.font = `600 11px ${theme.font}`;
    pen.fillStyle = theme.ink;
    pen.fillText(value, right, y);
    right -= room;
    pen.font = `11px ${theme.font}`;
    pen.fillStyle = theme.quiet;
    pen.fillText(series.name, right, y);
    right -= pen.measureText(series.name).width + 6;
    pen.strokeStyle = style.color;
    pen.globalAlpha = Math.max(style.opacity, 0.7);
    pen.lineWidth = 2;
    pen.setLineDash(style.dash);
    pen.beginPath();
    pen.moveTo(right - 16, y);
    pen.lineTo(right, y);
    pen.stroke();
    pen.setLineDash([]);
    pen.globalAlpha = 1;
    right -= 30;
  }
}
