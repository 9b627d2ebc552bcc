// Points of a curve in growing typed arrays, and the messages that bring them.

import type { Model } from "../../core/afm";
import { float64 } from "../../core/buffers";
import { followed, Store } from "../../core/store";

/** Points that can be drawn: the curve itself, or one moved to another axis or smoothed. */
export interface Points {
  readonly x: Float64Array;
  readonly y: Float64Array;
  readonly length: number;
}

export class Series implements Points {
  x = new Float64Array(256);
  y = new Float64Array(256);
  length = 0;

  /**
   * `name` is "" for what turns steps into epochs and seconds; `age` counts runs back from the present one; `slot` is the
   * number of its colour, where the name does not decide it.
   */
  constructor(readonly panel: string, readonly name: string, readonly age = 0, readonly slot?: number) {}

  /** Writes points from index `start` on; false if that would leave a hole. */
  write(start: number, x: Float64Array, y: Float64Array): boolean {
    if (start > this.length) return false;
    const end = start + x.length;
    if (end > this.x.length) {
      const room = Math.max(end, 2 * this.x.length);
      this.x = grown(this.x, room);
      this.y = grown(this.y, room);
    }
    this.x.set(x, start);
    this.y.set(y, start);
    this.length = Math.max(this.length, end);
    return true;
  }
}

/** Index of the point nearest to a place on the x axis; -1 without points. */
export function nearest({ x: xs, length }: Points, x: number): number {
  const at = firstFrom(xs, length, x);
  if (at === length) return length - 1;
  return at > 0 && x - xs[at - 1] < xs[at] - x ? at - 1 : at;
}

/** Index of the first point that is not left of `x`; `length` if there is none. */
export function firstFrom(xs: Float64Array, length: number, x: number): number {
  let low = 0;
  let high = length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (xs[middle] < x) low = middle + 1;
    else high = middle;
  }
  return low;
}

function grown(values: Float64Array, room: number): Float64Array<ArrayBuffer> {
  const out = new Float64Array(room);
  out.set(values);
  return out;
}

/** `x` and `y` of all parts follow each other in the two buffers of the message, as float64. */
export interface PlotMessage {
  kind: "plot.points" | "runs.curves";
  /** Changes when everything is sent anew: a run has begun, or points have been thinned. */
  run: number;
  series: { panel: string; name: string; age: number; slot?: number }[];
  parts: { series: number; start: number; count: number }[];
  /** Metrics that are drawn only when they are asked for. */
  onDemand: string[];
  /** Steps of an epoch in each run, 0 if unknown. */
  perEpoch: number[];
  status: string;
  /** Whether points lie on the axis that is shown, and need not be moved to it. */
  placed?: boolean;
}

/** Everything plotted so far. */
export class PlotStore extends Store<PlotMessage> {
  run = -1;
  onDemand: string[] = [];
  perEpoch: number[] = [];
  status = "";
  placed = false;
  private all = new Map<string, Series>();

  /** The curves, without what turns steps into epochs and seconds. */
  get series(): Series[] {
    return [...this.all.values()].filter(({ name }) => name);
  }

  protected read(message: PlotMessage, buffers: DataView[]): boolean {
    if (message.run !== this.run) {
      this.run = message.run;
      this.all = new Map();
    }
    const found = message.series.map(({ panel, name, age, slot }) => {
      const key = JSON.stringify([panel, name, age]);
      const series = this.all.get(key) ?? new Series(panel, name, age, slot);
      this.all.set(key, series);
      return series;
    });
    const [xs, ys] = buffers.map(float64);
    let complete = true;
    let at = 0;
    for (const { series, start, count } of message.parts) {
      complete = found[series].write(start, xs.subarray(at, at + count), ys.subarray(at, at + count)) && complete;
      at += count;
    }
    ({ onDemand: this.onDemand, perEpoch: this.perEpoch, status: this.status, placed: this.placed = false } = message);
    return complete;
  }

  /** What the steps of a run are in epochs or seconds, as far as it is known. */
  axis(kind: string, age: number): Series | undefined {
    return this.all.get(JSON.stringify([kind, "", age]));
  }
}

export const plotStore = (model: Model): PlotStore => followed(model, new PlotStore(), "plot.sync", ["plot.points"]);
