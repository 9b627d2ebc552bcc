// A number per item and how it becomes a colour: what an overlay shows, where its scale begins and ends, and the marks
// on its legend.

import type { GraphModel } from "../model/model";
import type { NodeFacts } from "../model/facts";
import { kindShade, ramp, shadeAt, type Shade } from "./palette";
import { dtypeOf, elements } from "../model/sizes";
import { inputsOf } from "../model/trace";
import { float64 } from "../../../core/buffers";
import type { Traits } from "../../../core/contract";
import { ticks } from "../../../core/ticks";

export type ColorBy = Traits["color_by"];
/** What the kernel measures when it is chosen. */
export const MEASURED: readonly ColorBy[] = ["time", "device", "gradient", "nan", "zero", "saturated"];
export type Scale = "linear" | "log" | "diverging";

/** What the kernel sends: one number per node of the graph spec, NaN where there is none. */
export interface OverlaySpec {
  title: string;
  unit: string;
  scale: Scale;
  /** f64[nodes] */
  values: DataView;
  /** Where values are kinds: their names, by number. */
  kinds?: string[];
  /** What is inside of nodes, by address. */
  inside?: Record<string, number>;
}

/** What the kernel has measured, or that it is about to, or why it cannot. */
export interface MeasuredSpec extends OverlaySpec {
  by: ColorBy;
  join: "sum" | "max" | "kind";
  kinds: string[];
  busy?: boolean;
  problem?: string;
}

export class Overlay {
  /** No item has a value that the scale can show. */
  readonly empty: boolean;
  readonly low: number;
  readonly high: number;

  /** `values` holds a number per item, NaN where there is none. */
  private constructor(readonly title: string, readonly unit: string, readonly scale: Scale, readonly values: Float64Array, readonly kinds: readonly string[] = []) {
    let [low, high] = [Infinity, -Infinity];
    for (const value of values) {
      if (!Number.isFinite(value) || (scale === "log" && value <= 0)) continue;
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
    this.empty = low > high;
    if (this.empty) [low, high] = [0, 0];
    if (scale === "diverging") [low, high] = [-Math.max(-low, high), Math.max(-low, high)];
    this.low = low;
    this.high = high;
  }

  /** The overlay that a menu entry stands for; undefined for categories, and where the kernel has given none. */
  static of(model: GraphModel, by: ColorBy, given: OverlaySpec | undefined, measured?: MeasuredSpec, facts?: NodeFacts): Overlay | undefined {
    if (by === "dtype") {
      const dtypes = Array.from({ length: model.n }, (_, node) => (model.outputSpecs(node).length ? dtypeOf(model.outputSpecs(node)[0]) : ""));
      const kinds = [...new Set(dtypes)].filter(Boolean).sort();
      return Overlay.ofKinds(model, "dtype", kinds, Float64Array.from(dtypes, (dtype) => (dtype ? kinds.indexOf(dtype) : NaN)));
    }
    if (by === "flops" || by === "bytes") {
      const own = facts && sentTo(model, by === "flops" ? facts.flops : facts.bytes);
      const about = facts?.sized ?? "";
      if (!own) return undefined;
      return by === "flops" ? new Overlay(`arithmetic${about}`, "FLOP", "log", gather(model, own, own, add)) : new Overlay(`bytes of results${about}`, "B", "log", gather(model, own, own, add));
    }
    if (MEASURED.includes(by)) {
      const own = measured?.by === by && measured.values ? sentTo(model, float64(measured.values)) : undefined;
      if (!measured || !own) return undefined;
      if (measured.join === "kind") return Overlay.ofKinds(model, measured.title, measured.kinds, own);
      return new Overlay(measured.title, measured.unit, measured.scale, gather(model, own, own, measured.join === "sum" ? add : largest));
    }
    if (by === "size") {
      const own = Float64Array.from({ length: model.n }, (_, node) => model.outputSpecs(node).reduce((sum, spec) => sum + elements(spec), 0));
      return new Overlay("output size", "elements, free dimensions counted as 1", "log", gather(model, own, own, add));
    }
    if (by === "parameters") {
      const held = Float64Array.from({ length: model.n }, (_, node) => (model.kindOf(node) === "variable" ? elements(model.outputSpecs(node)[0]) : NaN));
      const shown = held.map((count, node) => (model.kindOf(node) === "variable" ? count : inputsOf(model, node).map((k) => held[k]).reduce(add, NaN)));
      return new Overlay("parameters", "", "log", gather(model, shown, held, add));
    }
    if (by !== "overlay" || !given?.values) return undefined;
    const sent = float64(given.values);
    if (sent.length !== model.sent.reduce((sum, k) => sum + Number(k >= 0), 0)) return undefined; // it belongs to the graph before the last change
    const own = Float64Array.from(model.sent, (k, node) => (k >= 0 ? sent[k] : (given.inside?.[model.spec.names[node]] ?? NaN)));
    if (given.kinds?.length) return Overlay.ofKinds(model, given.title, given.kinds, own);
    const farther = (a: number, b: number): number => (Number.isNaN(a) ? b : Number.isNaN(b) ? a : Math.abs(b) > Math.abs(a) ? b : a);
    return new Overlay(given.title, given.unit, given.scale, gather(model, own, own, given.scale === "diverging" ? farther : largest));
  }

  /** A scope whose nodes are of several kinds is of none of them. */
  private static ofKinds(model: GraphModel, title: string, kinds: readonly string[], own: Float64Array): Overlay {
    const values = gather(model, own, own, (a, b) => (Number.isNaN(a) ? b : Number.isNaN(b) || a === b ? a : kinds.length));
    return new Overlay(title, "", "linear", values, values.includes(kinds.length) ? [...kinds, "several"] : kinds);
  }

  /** Place of a value on the scale, from 0 to 1; NaN where it has none. */
  place(value: number): number {
    if (Number.isNaN(value) || (this.scale === "log" && value <= 0)) return NaN;
    if (this.high === this.low) return 0.5;
    const [a, b, v] = this.scale === "log" ? [this.low, this.high, value].map(Math.log) : [this.low, this.high, value];
    return Math.max(0, Math.min(1, (v - a) / (b - a)));
  }

  /** Colour and ink of every item that has a value. */
  shades(dark: boolean): Map<number, Shade> {
    const colors = this.ramp(dark);
    const found = new Map<number, Shade>();
    this.values.forEach((value, item) => {
      if (this.kinds.length) {
        if (!Number.isNaN(value)) found.set(item, kindShade(value, this.kinds[value] === "several"));
        return;
      }
      const place = this.place(value);
      if (!Number.isNaN(place)) found.set(item, shadeAt(colors, place));
    });
    return found;
  }

  ramp(dark: boolean): Shade[] {
    return ramp(this.scale === "diverging", dark);
  }

  /** Round values between the ends of the scale. */
  marks(): number[] {
    const { low, high } = this;
    if (this.empty || low === high) return [];
    if (this.scale === "diverging") return [0];
    if (this.scale === "linear") return ticks(low, high, 4);
    const first = Math.ceil(Math.log10(low));
    const powers = Array.from({ length: Math.max(0, Math.floor(Math.log10(high)) - first + 1) }, (_, k) => 10 ** (first + k));
    const stride = Math.ceil(powers.length / 5);
    return powers.filter((_, k) => k % stride === 0);
  }
}

/** A column of the graph as it was sent for the nodes as they are numbered here; undefined where it belongs to another graph. */
function sentTo(model: GraphModel, column: Float64Array): Float64Array | undefined {
  if (column.length !== model.sent.reduce((sum, k) => sum + Number(k >= 0), 0)) return undefined;
  return Float64Array.from(model.sent, (k) => (k >= 0 ? column[k] : NaN));
}

function largest(a: number, b: number): number {
  return Number.isNaN(a) ? b : Number.isNaN(b) ? a : Math.max(a, b);
}

function add(a: number, b: number): number {
  return Number.isNaN(a) ? b : Number.isNaN(b) ? a : a + b;
}

/** A value per item: those of the nodes and their frames, and for each scope what `join` makes of those it holds. */
function gather(model: GraphModel, nodes: Float64Array, held: Float64Array, join: (a: number, b: number) => number): Float64Array {
  const values = new Float64Array(model.n + model.scopes.length).fill(NaN);
  values.set(nodes);
  for (let node = 0; node < model.n; node++) {
    for (let s = model.scopeOf[node]; s > 0; s = model.scopes[s].parent) {
      const { frame } = model.scopes[s];
      if (frame >= 0 && frame !== node) break; // an opened node has the value that it has when it is closed
      values[model.n + s] = join(values[model.n + s], frame < 0 ? held[node] : nodes[node]);
    }
  }
  return values;
}

/** What is said where an overlay has been chosen and there is none yet, or cannot be. */
export function waitingFor(by: ColorBy, measured: MeasuredSpec | undefined): string {
  if (!MEASURED.includes(by)) return "";
  if (measured?.by === by && measured.problem) return `cannot be measured: ${measured.problem}`;
  return measured?.by === by && measured.values ? "" : "being measured ...";
}
