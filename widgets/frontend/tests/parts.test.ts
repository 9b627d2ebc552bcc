// The small parts: axes, curves, SVG text, words.
import { test } from "node:test";
import assert from "node:assert/strict";
import { describe } from "../src/panels/graph/model/describe";
import { shortShape } from "../src/panels/graph/model/sizes";
import { LayoutEngine, ONE_COLUMN } from "../src/panels/graph/layout/engine";
import { GraphModel } from "../src/panels/graph/model/model";
import { Painter } from "../src/panels/graph/picture/paint";
import { fitText, SvgPen } from "../src/panels/graph/picture/pen";
import { escapeXml } from "../src/core/files";
import { Viewport } from "../src/panels/graph/picture/viewport";
import { nearest, PlotStore, type PlotMessage } from "../src/panels/plot/series";
import { compact } from "../src/core/format";
import { Heatmap } from "../src/panels/tensor/heatmap";
import { Part, type TensorFacts } from "../src/panels/tensor/picture";
import { ticks } from "../src/core/ticks";
import { classifier, specOf } from "./support/graphs";

test("ticks are round, inside the range and not too many", () => {
  assert.deepEqual(ticks(0, 1, 4), [0, 0.5, 1]);
  assert.deepEqual(ticks(0.04, 1.05, 3), [0.5, 1]);
  assert.deepEqual(ticks(-3, 12, 5), [0, 5, 10]);
  assert.deepEqual(ticks(5, 5, 4), [5]);
  for (const [low, high] of [[1e-7, 3e-7], [-1e9, 1e9], [99.999, 100.001]]) {
    const found = ticks(low, high, 5);
    assert(found.length >= 2 && found.length <= 6, `${found.length} ticks`);
    assert(found.every((value) => value >= low - 1e-9 * (high - low) && value <= high + 1e-9 * (high - low)));
  }
});

test("numbers are written short", () => {
  assert.deepEqual([0, 1, 0.25, 1234, 12345, 2.5e6, 2e9, 0.00012, -3].map((value) => compact(value)), ["0", "1", "0.25", "1234", "12.35k", "2.5M", "2e9", "1.2e−4", "−3"]);
  assert.deepEqual([NaN, Infinity, -Infinity].map((value) => compact(value)), ["NaN", "∞", "−∞"]);
});

const message = (run: number, start: number, values: number[]): [PlotMessage, DataView[]] => [
  {
    kind: "plot.points", run, series: [{ panel: "loss", name: "train", age: 0 }], parts: [{ series: 0, start, count: values.length }],
    onDemand: [], perEpoch: [0], status: "",
  },
  [values.map((_, k) => start + k), values].map((list) => new DataView(Float64Array.from(list).buffer)),
];

test("a store joins frames, survives repeats and notices holes", () => {
  const store = new PlotStore();
  assert(store.take(...message(0, 0, [5, 4, 3])));
  assert(store.take(...message(0, 2, [3, 2])), "an overlap is no hole");
  assert.deepEqual([...store.series[0].y.subarray(0, store.series[0].length)], [5, 4, 3, 2]);
  assert(!store.take(...message(0, 9, [1])), "points 4 to 8 are missing");
  assert.equal(store.series[0].length, 4);
  assert(store.take(...message(1, 0, [7])));
  assert.equal(store.series[0].length, 1);
});

test("a store grows, and finds the nearest point", () => {
  const store = new PlotStore();
  store.take(...message(0, 0, Array.from({ length: 5000 }, (_, k) => k)));
  const [series] = store.series;
  assert.deepEqual([-5, 0, 1.4, 1.6, 4999, 1e9].map((x) => nearest(series, x)), [0, 0, 1, 2, 4999, 4999]);
});

test("a message may arrive at any byte offset", () => {
  const [content, buffers] = message(0, 0, [1.5, 2.5]);
  const shifted = buffers.map((view) => {
    const bytes = new Uint8Array(view.byteLength + 3);
    bytes.set(new Uint8Array(view.buffer), 3);
    return new DataView(bytes.buffer, 3, view.byteLength);
  });
  const store = new PlotStore();
  store.take(content, shifted);
  assert.deepEqual([...store.series[0].y.subarray(0, 2)], [1.5, 2.5]);
});

test("shapes and names are written for people", () => {
  assert.deepEqual(["f32[B, 64]", "f32[]", "i64[10]", "bool"].map(shortShape), ["B×64", "f32", "10", "bool"]);
  const model = new GraphModel(specOf(classifier()));
  const face = describe(model, model.node("p"));
  assert.deepEqual([face.title, face.note], ["p", "softmax"]);
  assert.equal(describe(model, model.node("hidden/relu")).note, "", "a plain op says its name once");
  const cut = fitText(new SvgPen("serif"), "a_very_long_name_that_does_not_fit", 12, 400, 80);
  assert(/^a_v.*….*_fit$/.test(cut.text) && cut.width <= 80 && cut.width > 60);
});

const THEME = {
  font: "sans-serif", surface: "rgb(255, 255, 255)", raised: "rgb(245, 245, 245)", ink: "rgb(0, 0, 0)", quiet: "rgb(90, 90, 90)",
  dark: false, line: "rgb(200, 200, 200)", wire: "rgb(140, 140, 140)", accent: "rgb(0, 90, 200)", series: [], category: () => "rgb(0, 114, 178)",
};

test("SVG holds every name as text and nothing else of it", () => {
  const evil = '<img src=x onerror="alert(1)">';
  const nodes = [{ name: evil }, { name: "ctrl\u0001", inputs: [evil] }];
  const model = new GraphModel(specOf(nodes, evil));
  const scene = new LayoutEngine(model).layout([]);
  const pen = new SvgPen("sans-serif");
  const look = { theme: THEME, selected: -1, hovered: -1, lit: new Set<number>(), frozen: new Set<number>() };
  new Painter(model, scene).paint(pen, { x: 0, y: 0, width: scene.width, height: scene.height, scale: 1 }, look);
  const svg = pen.finish(0, 0, scene.width, scene.height, "white", evil);
  assert.doesNotMatch(svg, /<img/);
  assert.match(svg, /&lt;img/);
  assert.doesNotMatch(svg, /\u0001/);
  assert.equal(escapeXml(`&<>"'`), "&amp;&lt;&gt;&quot;&#39;");
});

test("only what is on the screen is drawn", () => {
  const model = new GraphModel(specOf(Array.from({ length: 500 }, (_, i) => ({ name: `n${i}`, inputs: i ? [`n${i - 1}`] : [] }))));
  const painter = new Painter(model, new LayoutEngine(model, ONE_COLUMN).layout([]));
  const pen = new SvgPen("sans-serif");
  const look = { theme: THEME, selected: -1, hovered: -1, lit: new Set<number>(), frozen: new Set<number>() };
  painter.paint(pen, { x: 0, y: 0, width: 400, height: 300, scale: 1 }, look);
  const shown = (pen.finish(0, 0, 400, 300, "white", "").match(/<rect/g) ?? []).length;
  assert(shown > 3 && shown < 15, `${shown} rectangles of 500`);
});

test("zooming keeps the point under the pointer", () => {
  const view = new Viewport();
  view.fit({ width: 400, height: 300, anchor: [200, 0] }, 800, 600, true);
  const before = view.toPlane(123, 77);
  view.zoom(1.7, 123, 77);
  const after = view.toPlane(123, 77);
  assert(Math.hypot(after[0] - before[0], after[1] - before[1]) < 1e-9);
  view.fit({ width: 400, height: 90_000, anchor: [200, 0] }, 800, 600, true);
  assert(view.scale >= 0.7 && Math.abs(view.toPlane(0, 0)[1]) < 100, "a tall drawing starts readable at its top");
});

test("a finer picture that comes after the zoom was left is not shown", () => {
  const part = (rows: number, fields: string[]): Part =>
    new Part({ window: [0, 1, 0, 1, 0, 8, 0, 8], cells: [rows, rows], fields, type: "f4", every: 1 }, 1, 1, new DataView(new ArrayBuffer(4 * rows * rows * fields.length)));
  const heatmap = new Heatmap();
  heatmap.show({ height: 8, width: 8, slice: [8, 8], shown: 1, grid: [1, 1] } as unknown as TensorFacts, part(2, ["min", "max", "mean"]));
  const fine = part(8, ["value"]);
  heatmap.zoom(2, 0, 0);
  heatmap.refine(fine);
  assert.equal(heatmap.detail, fine);
  heatmap.reset();
  heatmap.refine(fine);
  assert.equal(heatmap.detail, undefined);
});
