// Curves before they are drawn: smoothing, axes, scales, columns of pixels, choice of metrics, files; numbers of the trainer.
import { test } from "node:test";
import assert from "node:assert/strict";
import { Chart, extent, withRoom, type Pen } from "../src/panels/plot/chart";
import { panels, type Look } from "../src/panels/plot/picture";
import { SvgPen, toCsv } from "../src/panels/plot/save";
import { firstFrom, PlotStore, Series } from "../src/panels/plot/series";
import { decades } from "../src/core/ticks";
import { hasAxis, onAxis, smooth } from "../src/panels/plot/transform";
import { duration, parseRate, RateScale, rateText } from "../src/panels/training/numbers";

const near = (found: ArrayLike<number>, expected: number[]): void => {
  assert.equal(found.length, expected.length);
  expected.forEach((value, k) => assert(Math.abs(found[k] - value) < 1e-9 * (1 + Math.abs(value)), `${found[k]} is not ${value} at ${k}`));
};

type Curve = { panel: string; name: string; age?: number; x: number[]; y: number[] };

function storeOf(curves: Curve[], perEpoch = [0], onDemand: string[] = []): PlotStore {
  const store = new PlotStore();
  const join = (key: "x" | "y"): DataView => new DataView(Float64Array.from(curves.flatMap((c) => c[key])).buffer);
  store.take(
    {
      kind: "plot.points", run: 0, status: "", onDemand, perEpoch,
      series: curves.map(({ panel, name, age = 0 }) => ({ panel, name, age })),
      parts: curves.map(({ x }, series) => ({ series, start: 0, count: x.length })),
    },
    [join("x"), join("y")],
  );
  return store;
}

const LOOK: Look = { axis: "step", smoothing: 0, log: false, metrics: [] };

test("smoothing is the debiased average, and goes on where it was", () => {
  const series = new Series("loss", "step");
  const y = [3, 1, NaN, 4, 1, 5];
  series.write(0, Float64Array.from([1, 2, 3]), Float64Array.from(y.slice(0, 3)));
  near(smooth(series, 0.5).subarray(0, 2), [3, (0.5 * 3 + 1) / 1.5]);
  series.write(3, Float64Array.from([4, 5, 6]), Float64Array.from(y.slice(3)));
  const found = smooth(series, 0.5);
  assert(Number.isNaN(found[2]), "what is not finite stays a gap");
  const finite = [3, 1, 4, 1, 5];
  const weights = finite.map((_, k) => 0.5 ** (4 - k));
  const mean = finite.reduce((sum, v, k) => sum + v * weights[k], 0) / weights.reduce((a, b) => a + b);
  near([found[5]], [mean]);
  near(smooth(series, 0).subarray(3, 6), [4, 1, 5]);
});

test("steps become epochs and seconds; the epoch without an end goes on at its pace", () => {
  const store = storeOf([
    { panel: "loss", name: "step", x: [1, 5, 10, 12], y: [4, 3, 2, 1] },
    { panel: "epoch", name: "", x: [5, 10], y: [1, 2] },
    { panel: "seconds", name: "", x: [1, 5, 10, 12], y: [0.5, 1, 3, 4] },
  ], [5]);
  const [loss] = store.series;
  near(onAxis(store, loss, "epoch"), [0.2, 1, 2, 2.4]);
  near(onAxis(store, loss, "seconds"), [0.5, 1, 3, 4]);
  assert.equal(onAxis(store, loss, "step"), loss.x);
  assert(hasAxis(store, "epoch") && hasAxis(store, "seconds"));
  const bare = storeOf([{ panel: "loss", name: "train", x: [1], y: [1] }]);
  assert(!hasAxis(bare, "epoch") && !hasAxis(bare, "seconds") && hasAxis(bare, "step"));
});

test("what is shown: chosen metrics, others but those on demand, the present run first", () => {
  const line = { x: [1, 2], y: [1, 2] };
  const store = storeOf([
    { panel: "loss", name: "step", age: 1, ...line }, { panel: "loss", name: "step", ...line }, { panel: "loss", name: "train", ...line },
    { panel: "grad_norm", name: "step", ...line }, { panel: "none yet", name: "step", x: [], y: [] },
  ], [0, 0], ["grad_norm"]);
  assert.deepEqual([...panels(store, LOOK).keys()], ["loss"]);
  assert.deepEqual(panels(store, LOOK).get("loss")!.map(({ series }) => series.age), [0, 0, 1]);
  assert.deepEqual([...panels(store, { ...LOOK, metrics: ["grad_norm"] }).keys()], ["grad_norm"]);
  const smoothed = panels(store, { ...LOOK, smoothing: 0.9 }).get("loss")!;
  assert.deepEqual(smoothed.map(({ raw, shown }) => raw !== shown), [true, false, true], "means of epochs are smooth as they are");
});

test("a logarithmic scale leaves out what has no place on it", () => {
  const all = { low: -Infinity, high: Infinity };
  const points = { x: Float64Array.from([1, 2, 3, 4]), y: Float64Array.from([-1, 0, 0.01, 100]), length: 4 };
  assert.deepEqual(extent([points], all, true), { low: 0.01, high: 100 });
  assert.deepEqual(extent([points], { low: 1, high: 3 }, false), { low: -1, high: 0.01 });
  assert.equal(extent([{ ...points, length: 2 }], all, true), undefined);
  const room = withRoom({ low: 0.01, high: 100 }, true);
  assert(room.low > 0 && room.low < 0.01 && room.high > 100);
  for (const [low, high, count] of [[0.01, 100, 5], [0.5, 3, 3], [1e-12, 1e12, 4], [0.97, 1.02, 3], [2, 2.001, 3]]) {
    const found = decades(low, high, count);
    assert(found.length >= 2 && found.length <= count + 2, `${found}`);
    assert(found.every((v) => v >= low * 0.999 && v <= high * 1.001), `${found}`);
  }
});

/** Notes where a line goes. */
class Note {
  path: [number, number][] = [];
  moves = 0;
  [name: string]: unknown;
  moveTo(x: number, y: number): void {
    this.moves++;
    this.path.push([x, y]);
  }
  lineTo(x: number, y: number): void {
    this.path.push([x, y]);
  }
}
for (const name of ["save", "restore", "beginPath", "rect", "clip", "stroke", "fill", "arc", "setLineDash"]) {
  (Note.prototype as Record<string, unknown>)[name] = () => undefined;
}

test("a million points are drawn as a few per column, and no spike is lost", () => {
  const n = 1_000_000;
  const y = Float64Array.from({ length: n }, (_, i) => Math.sin(i / 1e5));
  y[333_333] = 9;
  y[777_777] = NaN;
  const points = { x: Float64Array.from({ length: n }, (_, i) => i), y, length: n };
  const pen = new Note();
  const chart = new Chart(pen as unknown as Pen, {} as never, { x: 0, y: 0, width: 500, height: 100 }, { low: 0, high: n - 1 }, { low: -1, high: 9 }, false);
  chart.line(points, { color: "", dash: [], width: 1, opacity: 1 }, true);
  assert(pen.path.length < 4 * 500, `${pen.path.length} points`);
  assert(pen.path.some(([x, at]) => Math.abs(x - 500 / 3) < 2 && Math.abs(at) < 1e-6), "the spike");
  const zoomed = new Note();
  new Chart(zoomed as unknown as Pen, {} as never, { x: 0, y: 0, width: 500, height: 100 }, { low: 1000, high: 1010 }, { low: -1, high: 9 }, false)
    .line(points, { color: "", dash: [], width: 1, opacity: 1 }, false);
  assert(zoomed.path.length >= 11 && zoomed.path.length < 16, "only what is in sight");
  assert.equal(zoomed.moves, 1);
});

test("places are found by halving", () => {
  const xs = Float64Array.from([1, 2, 2, 5]);
  assert.deepEqual([0, 1, 2, 3, 6].map((x) => firstFrom(xs, 4, x)), [0, 0, 1, 3, 4]);
});

test("CSV has a line per point that is shown, and names are text", () => {
  const store = storeOf([{ panel: '=1+1,"x"', name: "train", x: [1, 2, 3], y: [0.5, 0.25, NaN] }]);
  const lines = [...panels(store, LOOK).values()].flat();
  assert.equal(toCsv(store, lines, { low: 2, high: 9 }), `run,metric,curve,step,epoch,seconds,value\n0,"'=1+1,""x""",train,2,,,0.25\n0,"'=1+1,""x""",train,3,,,NaN\n`);
});

test("an SVG of curves holds names as text", () => {
  const pen = new SvgPen({ measureText: () => ({ width: 10 }) } as never);
  pen.fillText('<img src=x onerror="alert(1)">', 1, 2);
  pen.save();
  pen.rect(0, 0, 5, 5);
  pen.clip();
  pen.beginPath();
  pen.moveTo(0, 0);
  pen.lineTo(1.23456, 2);
  pen.stroke();
  pen.restore();
  const svg = pen.finish(10, 20, "white");
  assert.doesNotMatch(svg, /<img/);
  assert.match(svg, /d="M0 0L1.23 2"/);
  assert.equal((svg.match(/<g /g) ?? []).length, (svg.match(/<\/g>/g) ?? []).length);
});

test("learning rates have a place on the slider, and go back to what they were", () => {
  const scale = new RateScale();
  assert.equal(scale.toSlider(0.01), 0);
  near([scale.toSlider(0.1), scale.toSlider(0.0001)], [1, -2]);
  assert.deepEqual([-1, 0, 0.5].map((at) => scale.fromSlider(at)), [0.001, 0.01, 0.0316]);
  assert.equal(scale.toSlider(10), 0, "beyond two decades it becomes the middle");
  assert.equal(scale.toSlider(0), -2);
  assert.deepEqual([0.05, 2.08e-4, 1e-5, 0, 3].map(rateText), ["0.05", "2.08e-4", "1e-5", "0", "3"]);
  assert.deepEqual(["1e-3", " 0,5 ", "0"].map(parseRate), [1e-3, 0.5, 0]);
  const wrong: [string, RegExp][] = [["-1", /^-1 is below zero/], ["", /^Nothing was typed/], ["abc", /^“abc” is not a number/], ["Infinity", /^Infinity is too large/]];
  for (const [text, why] of wrong) assert.match(String(parseRate(text)), why);
  assert.deepEqual([0.04, 7.04, 59.6, 754, 3723].map(duration), ["0.0 s", "7.0 s", "1:00", "12:34", "1:02:03"]);
});
