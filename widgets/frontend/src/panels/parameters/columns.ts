// The columns of the table: heading, explanation, width, what is shown and what is sorted by.

import type { Traits } from "../../core/contract";
import { compact, counted, grouped, minus, shapeText } from "../../core/format";
import type { Parameter, Row } from "./rows";
import { HEALTHY } from "./sparkline";
import type { HistoryColumn, NumberColumn, StatisticsStore } from "./statistics";

/** What can be sorted by. */
export type Sorted = Exclude<Traits["table_sort"], "" | `-${string}`>;
export type ColumnName = Traits["table_columns"][number];

export interface Column {
  name: ColumnName;
  title: string;
  hint: string;
  width: number;
  isNumber: boolean;
  /** Drawn over the steps, beside the number. */
  history?: HistoryColumn;
  text(row: Row, store: StatisticsStore): string;
  rank(parameter: Parameter, store: StatisticsStore): number | string;
}

export const NAME_WIDTH = 144;
export const BOX_WIDTH = 50;

/** Three digits, or two and a power of ten below `exponent`. */
const shown = (value: number, exponent = 0.01): string => {
  const size = Math.abs(value);
  if (Number.isNaN(value)) return "–";
  return size > 0 && size < exponent ? minus(value.toExponential(1)) : compact(value, 3);
};

/** Norm of several parameters together, as far as they are known. */
function joint(members: readonly Parameter[], store: StatisticsStore, column: NumberColumn): number {
  const known = members.map(({ name }) => store.number(name, column)).filter((value) => !Number.isNaN(value));
  return known.length ? Math.hypot(...known) : NaN;
}

/** The ratio of a group is that of its trained members together. */
export function ratioOf({ parameter, members }: Row, store: StatisticsStore): number {
  if (parameter) return store.number(parameter.name, "ratio");
  const trained = members.filter(({ name }) => !Number.isNaN(store.number(name, "ratio")));
  const update = joint(trained, store, "update_norm");
  return update === 0 ? 0 : update / joint(trained, store, "norm");
}

/** An arrow says which side of the usual band a ratio is on. */
function judged(ratio: number): string {
  const arrow = ratio > HEALTHY[1] ? "▲ " : ratio > 0 && ratio < HEALTHY[0] ? "▼ " : "";
  return arrow + shown(ratio, 0.1);
}

function moment(name: NumberColumn & ColumnName, title: string, hint: string): Column {
  return {
    name, title, hint, width: 75, isNumber: true,
    text: (row, store) => (row.parameter ? shown(store.number(row.parameter.name, name)) : ""),
    rank: (parameter, store) => store.number(parameter.name, name),
  };
}

export const COLUMNS: readonly Column[] = [
  {
    name: "shape", title: "Shape", hint: "Shape", width: 84, isNumber: false,
    text: ({ parameter, members }) => (parameter ? shapeText(parameter.shape) : counted(members.length, "array")),
    rank: (parameter) => parameter.shape.map((size) => String(size).padStart(12, "0")).join(" "),
  },
  {
    name: "dtype", title: "Type", hint: "Data type", width: 52, isNumber: false,
    text: ({ members }) => (members.every(({ dtype }) => dtype === members[0].dtype) ? members[0].dtype : "mixed"),
    rank: (parameter) => parameter.dtype,
  },
  {
    name: "count", title: "Count", hint: "Number of elements", width: 76, isNumber: true,
    text: ({ members }) => grouped(members.reduce((sum, { count }) => sum + count, 0)),
    rank: (parameter) => parameter.count,
  },
  moment("mean", "Mean", "Mean of the values"),
  moment("std", "Std", "Standard deviation of the values"),
  {
    name: "norm", title: "Norm", hint: "Euclidean norm of the values, ‖w‖", width: 70, isNumber: true,
    text: (row, store) => shown(joint(row.members, store, "norm")),
    rank: (parameter, store) => store.number(parameter.name, "norm"),
  },
  {
    name: "gradient_norm", title: "Gradient norm", hint: "Norm of the gradient before clipping, ‖g‖, over the steps", width: 136, isNumber: true, history: "gradient_norm",
    text: (row, store) => shown(joint(row.members, store, "gradient_norm")),
    rank: (parameter, store) => store.number(parameter.name, "gradient_norm"),
  },
  {
    name: "ratio", title: "Update ratio", width: 146, isNumber: true, history: "ratio",
    hint: "Update-to-weight ratio ‖Δw‖ : ‖w‖ of a step, over the steps. The band is from 0.0001 to 0.01, where training usually goes well; ▲ above, ▼ below it.",
    text: (row, store) => judged(ratioOf(row, store)),
    rank: (parameter, store) => store.number(parameter.name, "ratio"),
  },
];

const SAMPLED = ["ratio", "shape", "gradient_norm", "count", "norm", "std", "mean", "dtype"];
const UNSAMPLED = ["shape", "count", "norm", "std", "mean", "dtype"];

/** The columns that were chosen, else the most telling ones that a width has room for. */
export function columnsFor(available: number, chosen: readonly string[], sampled: boolean): Column[] {
  if (chosen.length) return COLUMNS.filter(({ name }) => chosen.includes(name));
  let room = available - BOX_WIDTH - NAME_WIDTH;
  const fitting = new Set<string>();
  for (const name of sampled ? SAMPLED : UNSAMPLED) {
    const { width } = COLUMNS.find((column) => column.name === name)!;
    room -= width;
    if (room < 0) break;
    fitting.add(name);
  }
  return COLUMNS.filter(({ name }) => fitting.has(name));
}
