// The model of the panel of runs over what the server reads of run folders: no kernel, and any number of notebooks that write.

import type { Question } from "../../core/afm";
import { PlainModel } from "../../core/saved";
import type { ChosenRun, RunRow } from "../../panels/runs/store";
import type { Served } from "../viewer/served";
import { added, metricsOf, NEW, points, type Columns, type Recorded } from "./recorded";

const MOST_CHOSEN = 12; // six colours, each in two dashes
const STATE = {
  runs_chosen: [], runs_metric: "", runs_filter: "", runs_sort: "-created", runs_x_axis: "epoch", runs_smoothing: 0, runs_log: false,
  message: "", height: 560,
};

interface Listed {
  runs: (RunRow & { path: string })[];
  total: number;
  problems: string[];
}

interface News {
  next: number;
  more: boolean;
  cut: { step: number; epoch: number } | null;
  steps: Columns;
  epochs: Columns;
}

export class RunsModel extends PlainModel {
  private runs: Listed = { runs: [], total: 0, problems: [] };
  private readonly read = new Map<string, Recorded>();
  private readonly problems = new Map<string, string>();
  private readonly slots = new Map<string, number>();
  private differences: { of: string; rows: string[][] } = { of: "", rows: [] };
  private shown: Listed["runs"] = [];
  private busy = false;
  private again = false;
  private drawing = 0;
  private readonly ending = new AbortController();

  constructor(private readonly served: Served, readonly folder: string) {
    super({ ...STATE });
    for (const trait of ["runs_chosen", "runs_metric", "runs_x_axis"] as const) this.on(`change:${trait}`, () => void this.look());
  }

  dispose(): void {
    this.ending.abort();
  }

  /** The panel asks to look, again and again while it is seen. */
  send({ kind }: Question): void {
    if (kind === "runs.look") void this.look();
    else if (kind === "runs.sync") queueMicrotask(() => this.tellCurves());
  }

  /** Reads what is new and tells it; what is asked for meanwhile is read after it. */
  private async look(): Promise<void> {
    this.again = true;
    if (this.busy) return;
    this.busy = true;
    while (this.again && !this.ending.signal.aborted) {
      this.again = false;
      try {
        await this.refresh();
        if (this.get("message")) this.set("message", "");
      } catch (error) {
        if (!this.ending.signal.aborted) this.set("message", error instanceof Error ? error.message : String(error));
      }
      this.emit("msg:custom", { kind: "runs.seen" }, []);
    }
    this.busy = false;
  }

  private async refresh(): Promise<void> {
    const { signal } = this.ending;
    this.runs = await this.served.get<Listed>("runs", { path: this.folder }, signal);
    const chosen = this.chosen(); // others may be chosen meanwhile: they are told when they have been read
    for (const { key, path } of chosen) await this.follow(key, path, signal);
    for (const key of this.slots.keys()) if (!chosen.some((run) => run.key === key)) this.slots.delete(key);
    for (const { key } of chosen) {
      const free = Array.from({ length: MOST_CHOSEN }, (_, k) => k).find((k) => ![...this.slots.values()].includes(k));
      if (!this.slots.has(key)) this.slots.set(key, free ?? 0);
    }
    this.shown = chosen;
    await this.compare(chosen.map(({ path }) => path), signal);
    this.tellTable();
    this.tellCurves();
  }

  private chosen(): Listed["runs"] {
    const known = new Map(this.runs.runs.map((run) => [run.key, run]));
    return this.get("runs_chosen").slice(0, MOST_CHOSEN).flatMap((key) => known.get(key) ?? []);
  }

  /** Reads what a run has recorded since it was last read. */
  private async follow(key: string, path: string, signal: AbortSignal): Promise<void> {
    try {
      for (let more = true; more; ) {
        const held = this.read.get(key) ?? NEW;
        const news = await this.served.get<News>("curves", { path, since: held.next }, signal);
        this.read.set(key, added(news.next < held.next ? NEW : held, news));
        ({ more } = news);
      }
      this.problems.delete(key);
    } catch (error) {
      if (signal.aborted) throw error;
      this.problems.set(key, error instanceof Error ? error.message : String(error));
    }
  }

  private async compare(paths: string[], signal: AbortSignal): Promise<void> {
    const of = JSON.stringify(paths);
    if (of === this.differences.of) return;
    const rows = paths.length < 2 ? [] : (await this.served.get<{ rows: unknown[][] }>("difference", { path: paths }, signal)).rows;
    this.differences = { of, rows: rows.map((row) => row.map((value) => (typeof value === "string" ? value : JSON.stringify(value) ?? ""))) };
  }

  private metrics(): string[] {
    return metricsOf(this.shown.flatMap(({ key }) => this.read.get(key) ?? []));
  }

  private metric(): string {
    const known = this.metrics();
    return [this.get("runs_metric"), "val_loss", "loss", ...known].find((name) => known.includes(name)) ?? "";
  }

  private labels(): ChosenRun[] {
    const chosen = this.shown;
    const names = chosen.map(({ name }) => name || "unnamed");
    return chosen.map(({ key }, k) => {
      const same = ["step", "train", "validation"].includes(names[k]) || names.filter((name) => name === names[k]).length > 1;
      return { key, label: same ? `${names[k]} (${key.slice(0, 6)})` : names[k], slot: this.slots.get(key) ?? 0, problem: this.problems.get(key) ?? "" };
    });
  }

  private tellTable(): void {
    const words = (value: number | string | null): number | string | null => (typeof value === "string" ? value.replace("Infinity", "inf") : value);
    const rows = this.runs.runs.map((run) => ({ ...run, metrics: Object.fromEntries(Object.entries(run.metrics).map(([name, value]) => [name, words(value)])) }));
    this.emit("msg:custom", {
      kind: "runs.table", rows, gone: [], whole: true, more: this.runs.total - rows.length - this.runs.problems.length, folder: this.folder || "all folders of this server",
      chosen: this.labels(), metrics: this.metrics(), metric: this.metric(), differences: this.differences.rows,
    }, []);
  }

  private tellCurves(): void {
    const metric = this.metric();
    const axis = this.get("runs_x_axis");
    const drawn = this.labels().map(({ key, label, slot }) => ({ label, slot, ...points(this.read.get(key) ?? NEW, metric, axis) }));
    const xs = Float64Array.from(drawn.flatMap(({ x }) => x));
    const ys = Float64Array.from(drawn.flatMap(({ y }) => y));
    this.emit("msg:custom", {
      kind: "runs.curves", run: ++this.drawing,
      series: drawn.map(({ label, slot }) => ({ panel: metric.replace(/^each step: /, ""), name: label, age: 0, slot })),
      parts: drawn.map(({ x }, series) => ({ series, start: 0, count: x.length })),
      onDemand: [], perEpoch: [0], status: "", placed: true,
    }, [new DataView(xs.buffer), new DataView(ys.buffer)]);
  }
}
