// Which runs the table shows, in which order; like `shown` in Python.

import { natural } from "../../core/format";
import { filterOf } from "../parameters/filter";
import type { RunRow } from "./store";

const TEXTS = ["name", "status"];
const OWN = ["created", "epochs", "steps", "seconds"];

/** A number of a run, be it its own or a metric; NaN where it has none. */
export function numberOf(row: RunRow, column: string): number {
  const held = OWN.includes(column) ? row[column as "created"] : row.metrics[column];
  if (held === null || held === undefined) return NaN;
  return typeof held === "number" ? held : held === "inf" ? Infinity : held === "-inf" ? -Infinity : NaN;
}

/** The rows to show, or a sentence about what is wrong with the filter. */
export function shownRows(rows: Iterable<RunRow>, text: string, sort: string): RunRow[] | string {
  const fits = filterOf(text);
  if (typeof fits === "string") return fits;
  const kept = [...rows].filter((row) => fits([row.name, row.graph, row.status, ...row.tags].join(" ")));
  const column = sort.replace(/^-/, "");
  const sign = sort.startsWith("-") ? -1 : 1;
  if (TEXTS.includes(column)) {
    const key = (row: RunRow): string => String(row[column as "name"]).toLowerCase();
    return kept.sort((a, b) => sign * natural(key(a), key(b)));
  }
  return kept.sort((a, b) => {
    const [x, y] = [numberOf(a, column), numberOf(b, column)];
    if (Number.isNaN(x) || Number.isNaN(y)) return Number(Number.isNaN(x)) - Number(Number.isNaN(y));
    return x === y ? 0 : sign * (x < y ? -1 : 1);
  });
}

const FALLS = /(^|_)(loss|error)$/;

/** What a click on a head sorts by: the best first, then the other way round. */
export function nextSort(column: string, now: string): string {
  if (now.replace(/^-/, "") === column) return now.startsWith("-") ? column : `-${column}`;
  return TEXTS.includes(column) || FALLS.test(column) ? column : `-${column}`;
}

/** The metrics with a column: those most runs have, losses first. */
export function columnsOf(rows: Iterable<RunRow>, most: number): string[] {
  const counts = new Map<string, number>();
  for (const { metrics } of rows) for (const name of Object.keys(metrics)) counts.set(name, (counts.get(name) ?? 0) + 1);
  const rank = (name: string): number => (name === "val_loss" ? 2e9 : name === "loss" ? 1e9 : name.startsWith("val_") ? 1e6 : 0) + counts.get(name)!;
  return [...counts.keys()].sort((a, b) => rank(b) - rank(a) || natural(a, b)).slice(0, most);
}
