// What the kernel knows of each parameter: the latest numbers, flags, and two columns over the steps.

import type { Model } from "../../core/afm";
import { bytes } from "../../core/buffers";
import { followed, Store } from "../../core/store";

/** Columns of the latest numbers, as `COLUMNS` in workbench/gradwright/train/callbacks/statistics.py has them. */
export const NUMBERS = ["mean", "std", "norm", "min", "max", "zeros", "gradient_norm", "update_norm", "ratio"] as const;
/** Columns that are kept over the steps. */
export const HISTORY = ["gradient_norm", "ratio"] as const;
export const FLAGS = ["dead", "exploding", "not finite"] as const;

export type NumberColumn = (typeof NUMBERS)[number];
export type HistoryColumn = (typeof HISTORY)[number];

/** Buffers: history f32[steps, n, 2], numbers f32[n, 9], flags u8[n, 3]. */
export interface StatisticsMessage {
  kind: "parameters.statistics";
  /** Changes when parameters or samples move; then everything is sent. */
  layout: number;
  /** Names of the n parameters; left out when the samples go on from `start` > 0. */
  names: string[];
  start: number;
  steps: number[];
  /** Whether there is a trainer whose steps are sampled. */
  sampled: boolean;
}

export class StatisticsStore extends Store<StatisticsMessage> {
  layout = -1;
  sampled = false;
  names: string[] = [];
  steps: number[] = [];
  private place = new Map<string, number>();
  private rows: Float32Array[] = [];
  private numbers = new Float32Array();
  private marks = new Uint8Array();

  protected read(message: StatisticsMessage, buffers: DataView[]): boolean {
    const { layout, names, start, steps, sampled } = message;
    if (start && (layout !== this.layout || start > this.steps.length)) return false;
    if (!start) {
      this.names = names;
      this.place = new Map(names.map((name, k) => [name, k]));
    }
    this.layout = layout;
    this.sampled = sampled;
    const [history, numbers, marks] = buffers.map(bytes);
    const values = new Float32Array(history);
    const width = this.names.length * HISTORY.length;
    this.steps = [...this.steps.slice(0, start), ...steps];
    this.rows = [...this.rows.slice(0, start), ...steps.map((_, k) => values.subarray(k * width, (k + 1) * width))];
    this.numbers = new Float32Array(numbers);
    this.marks = new Uint8Array(marks);
    return true;
  }

  /** The latest number of a parameter; NaN where nothing is known, as of the ratio of one that is not trained. */
  number(name: string, column: NumberColumn): number {
    const k = this.place.get(name);
    if (k === undefined) return NaN;
    const at = (c: NumberColumn): number => this.numbers[k * NUMBERS.length + NUMBERS.indexOf(c)];
    return column === "ratio" && Number.isNaN(at("gradient_norm")) && at("ratio") === 0 ? NaN : at(column);
  }

  /** The flags that any of these parameters has, and how many have each. */
  flagged(names: readonly string[]): [flag: string, count: number][] {
    const places = names.map((name) => this.place.get(name)).filter((k) => k !== undefined);
    const counts = FLAGS.map((flag, f): [string, number] => [flag, places.filter((k) => this.marks[k * FLAGS.length + f]).length]);
    return counts.filter(([, count]) => count > 0);
  }

  /** The past of a parameter, one value for each of `steps`, NaN where it was not trained. */
  past(name: string, column: HistoryColumn): number[] {
    const k = this.place.get(name);
    if (k === undefined) return [];
    const [gradient, ratio] = [k * HISTORY.length, k * HISTORY.length + 1];
    if (column === "gradient_norm") return this.rows.map((row) => row[gradient]);
    return this.rows.map((row) => (Number.isNaN(row[gradient]) && row[ratio] === 0 ? NaN : row[ratio]));
  }
}

export const statisticsStore = (model: Model): StatisticsStore => followed(model, new StatisticsStore(), "parameters.sync", ["parameters.statistics"]);
