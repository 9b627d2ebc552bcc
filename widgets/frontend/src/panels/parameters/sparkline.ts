// A number over the steps in the space of a word, on a logarithmic scale.

import type { HistoryColumn } from "./statistics";

const SVG = "http://www.w3.org/2000/svg";
export const WIDTH = 58;
export const HEIGHT = 20;
/** Update-to-weight ratios that are usual; the scale of the ratio reaches two decades beyond on both sides. */
export const HEALTHY: readonly [number, number] = [1e-4, 1e-2];
const RATIO_SCALE: Scale = { low: -6, high: 0 };
const LEFT = 2;

/** Exponents of ten at the bottom and the top. */
export interface Scale {
  low: number;
  high: number;
}

/** The scale of a ratio is always the same; that of any other number spans its values, at least two decades. */
export function scaleOf(values: readonly number[], column: HistoryColumn): Scale {
  if (column === "ratio") return RATIO_SCALE;
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    if (!(value > 0) || value === Infinity) continue;
    low = Math.min(low, Math.log10(value));
    high = Math.max(high, Math.log10(value));
  }
  if (low > high) return { low: -1, high: 1 };
  const room = Math.max(0.1, (2 - (high - low)) / 2);
  return { low: low - room, high: high + room };
}

export function toX(step: number, steps: readonly number[]): number {
  const [first, last] = [steps[0], steps[steps.length - 1]];
  return LEFT + (last > first ? (step - first) / (last - first) : 1) * (WIDTH - 2 * LEFT);
}

/** Zero is at the bottom, infinity at the top; what is beyond the scale stays at its edge. */
export function toY(value: number, { low, high }: Scale): number {
  const part = (Math.log10(value) - low) / (high - low);
  return HEIGHT - 2 - Math.min(1, Math.max(0, part)) * (HEIGHT - 4);
}

/** The line as SVG path data; a value that is missing is a gap, one alone a dot. */
export function pathOf(steps: readonly number[], values: readonly number[], scale: Scale): string {
  let path = "";
  let drawing = false;
  for (let i = 0; i < values.length; i++) {
    if (Number.isNaN(values[i])) {
      drawing = false;
      continue;
    }
    const at = `${toX(steps[i], steps).toFixed(1)} ${toY(values[i], scale).toFixed(1)}`;
    const alone = !drawing && !(i + 1 < values.length && !Number.isNaN(values[i + 1]));
    path += `${drawing ? "L" : "M"}${at}${alone ? "h0.01" : ""}`;
    drawing = true;
  }
  return path;
}

/** Index of the sample nearest to a place on the x axis. */
export function nearest(x: number, steps: readonly number[]): number {
  let best = 0;
  for (let i = 1; i < steps.length; i++) if (Math.abs(toX(steps[i], steps) - x) < Math.abs(toX(steps[best], steps) - x)) best = i;
  return best;
}

export class Sparkline {
  readonly node = svg("svg", { class: "gw-spark", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, height: HEIGHT, "aria-hidden": "true" });
  steps: readonly number[] = [];
  values: readonly number[] = [];
  private readonly line = svg("path", { class: "gw-spark-line" });
  private readonly dot = svg("circle", { class: "gw-spark-dot", r: 2.5, visibility: "hidden" });

  constructor(readonly column: HistoryColumn) {
    if (column === "ratio") {
      const [bottom, top] = HEALTHY.map((value) => toY(value, RATIO_SCALE));
      this.node.append(svg("rect", { class: "gw-spark-band", x: 0, y: top, width: WIDTH, height: bottom - top, rx: 2 }));
    }
    this.node.append(this.line, this.dot);
  }

  draw(steps: readonly number[], values: readonly number[]): void {
    this.steps = steps;
    this.values = values;
    const path = pathOf(steps, values, scaleOf(values, this.column));
    this.line.setAttribute("d", path);
    this.node.setAttribute("visibility", path ? "visible" : "hidden"); // a band alone says nothing
  }

  /** Marks a sample. */
  mark(k: number | undefined): void {
    const shown = k !== undefined && !Number.isNaN(this.values[k]);
    this.dot.setAttribute("visibility", shown ? "visible" : "hidden");
    if (!shown) return;
    this.dot.setAttribute("cx", String(toX(this.steps[k], this.steps)));
    this.dot.setAttribute("cy", String(toY(this.values[k], scaleOf(this.values, this.column))));
  }
}

function svg<K extends keyof SVGElementTagNameMap>(tag: K, attributes: Record<string, string | number>): SVGElementTagNameMap[K] {
  const node = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, String(value));
  return node;
}
