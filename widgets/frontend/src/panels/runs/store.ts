// The runs that the kernel has told of: rows that change one by one, what is compared, and the curves.

import { PlotStore } from "../plot/series";
import type { Message, Model } from "../../core/afm";
import { followed, Store } from "../../core/store";

export interface RunRow {
  key: string;
  name: string;
  graph: string;
  status: string;
  /** Seconds since 1970. */
  created: number;
  epochs: number;
  steps: number;
  seconds: number;
  tags: string[];
  notes: string;
  /** Of the last epoch; null for NaN, text for infinity. */
  metrics: Record<string, number | string | null>;
}

export interface ChosenRun {
  key: string;
  label: string;
  /** Number of its colour and dash. */
  slot: number;
  problem: string;
}

interface RunsMessage {
  kind: "runs.table";
  rows: RunRow[];
  gone: string[];
  whole: boolean;
  more: number;
  folder: string;
  chosen: ChosenRun[];
  metrics: string[];
  metric: string;
  differences: string[][];
}

export class RunsStore extends Store<RunsMessage> {
  rows = new Map<string, RunRow>();
  known = false; // whether the whole table has come; before, news of single rows mean nothing
  more = 0;
  folder = "";
  chosen: ChosenRun[] = [];
  metrics: string[] = [];
  metric = "";
  differences: string[][] = [];
  readonly curves = new PlotStore();

  protected read(message: RunsMessage): boolean {
    if (!message.whole && !this.known) return true;
    if (message.whole) this.rows = new Map();
    this.known = true;
    for (const key of message.gone) this.rows.delete(key);
    for (const row of message.rows) this.rows.set(row.key, row);
    ({ more: this.more, folder: this.folder, chosen: this.chosen, metrics: this.metrics, metric: this.metric, differences: this.differences } = message);
    return true;
  }
}

/** Nothing is asked for before somebody sees the panel; a saved page has it all. */
export function runsStore(model: Model): RunsStore {
  const store = new RunsStore();
  model.on("msg:custom", (content: Message, buffers: DataView[]) => {
    if (content.kind === "runs.table") store.take(content as RunsMessage, buffers);
  });
  followed(model, store.curves, "runs.sync", ["runs.curves"]);
  return store;
}
