// The trainer's parts and the table of runs: words, small pictures, orders.
import { test } from "node:test";
import assert from "node:assert/strict";
import { PlotStore, type PlotMessage } from "../src/panels/plot/series";
import { onAxis } from "../src/panels/plot/transform";
import { columnsOf, nextSort, numberOf, shownRows } from "../src/panels/runs/rows";
import { RunsStore, type RunRow } from "../src/panels/runs/store";
import { scaleText } from "../src/panels/training/facts";
import { outline } from "../src/panels/training/schedule";
import { agoText, bytesText } from "../src/core/format";

const row = (key: string, name: string, metrics: RunRow["metrics"] = {}, more: Partial<RunRow> = {}): RunRow => ({
  key, name, graph: "g", status: "finished", created: 1, epochs: 1, steps: 1, seconds: 1, tags: [], notes: "", metrics, ...more,
});

test("sizes, ages and scales are words", () => {
  assert.deepEqual([0, 312, 9649, 1_234_567, 5e9].map(bytesText), ["0 B", "312 B", "9.65 kB", "1.23 MB", "5 GB"]);
  assert.deepEqual([-3, 12, 90, 7200, 3 * 86400].map(agoText), ["now", "12 s", "1 min", "2 h", "3 days"]);
  assert.deepEqual([65536, 2 ** -12, 8, 1000, 2.5].map(scaleText), ["2¹⁶", "2⁻¹²", "8", "1000", "2.5"]);
});

test("the small picture of a schedule has a gap where it fails", () => {
  const points = { x: Float64Array.of(0, 1, 2, 3), y: Float64Array.of(1, NaN, 0, 1), length: 4 };
  const path = outline(points, { low: 0, high: 3 }, 30, 10);
  assert.equal(path.split("M").length - 1, 2);
  assert.equal(outline({ x: new Float64Array(0), y: new Float64Array(0), length: 0 }, { low: 0, high: 1 }, 30, 10), "");
});

test("runs are sorted with those that lack a metric last", () => {
  const rows = [row("a", "b", { loss: 2 }), row("b", "A", { loss: null }), row("c", "c", { loss: 1 }), row("d", "d", { loss: "inf" }), row("e", "e")];
  const keys = (sort: string, text = ""): string => (shownRows(rows, text, sort) as RunRow[]).map(({ key }) => key).join("");
  assert.equal(keys("loss"), "cadbe");
  assert.equal(keys("-loss"), "dacbe");
  assert.equal(keys("name"), "bacde");
  assert.equal(keys("loss", "A"), "b");
  assert.equal(typeof shownRows(rows, "/(/", "loss"), "string");
  assert(Number.isNaN(numberOf(rows[1], "loss")) && numberOf(rows[3], "loss") === Infinity);
});

test("a head sorts the best first, then the other way round", () => {
  assert.deepEqual([nextSort("val_loss", ""), nextSort("val_loss", "val_loss"), nextSort("accuracy", ""), nextSort("accuracy", "-accuracy"), nextSort("name", "")], ["val_loss", "-val_loss", "-accuracy", "accuracy", "name"]);
  assert.deepEqual(columnsOf([row("a", "a", { x: 1, y: 1, loss: 1 }), row("b", "b", { y: 1, val_loss: 1 })], 3), ["val_loss", "loss", "y"]);
});

test("news of single rows mean nothing before the whole table has come", () => {
  const store = new RunsStore();
  const message = (whole: boolean, rows: RunRow[], gone: string[] = []) =>
    ({ kind: "runs.table" as const, rows, gone, whole, more: 0, folder: "", chosen: [], metrics: [], metric: "", differences: [] });
  store.take(message(false, [row("a", "a")]), []);
  assert(!store.known && !store.rows.size);
  store.take(message(true, [row("a", "a"), row("b", "b")]), []);
  store.take(message(false, [row("a", "new")], ["b"]), []);
  assert.deepEqual([...store.rows.values()].map(({ name }) => name), ["new"]);
});

test("curves that are placed keep their x on every axis, and their slots", () => {
  const store = new PlotStore();
  const message: PlotMessage = {
    kind: "plot.points", run: 1, series: [{ panel: "loss", name: "mine", age: 0, slot: 4 }], parts: [{ series: 0, start: 0, count: 2 }],
    onDemand: [], perEpoch: [0], status: "", placed: true,
  };
  store.take(message, [[0.5, 1.5], [3, 2]].map((list) => new DataView(Float64Array.from(list).buffer)));
  assert.deepEqual([...onAxis(store, store.series[0], "epoch").subarray(0, 2)], [0.5, 1.5]);
  assert.equal(store.series[0].slot, 4);
});
