// What the side panel and the document of runs make of what they are told.

import assert from "node:assert/strict";
import { test } from "node:test";
import { servedPath } from "../src/lab/panel/paths";
import { pathOf } from "../src/lab/panel/sparkline";
import { BEFORE, extended, foremost, fraction, markOf, type Curve, type TrainingRow } from "../src/lab/panel/told";
import { added, metricsOf, NEW, points, spread } from "../src/lab/runs/recorded";

const row = (facts: Partial<TrainingRow>): TrainingRow => ({
  key: "t", name: "net", loss_name: "loss", status: "idle", step: 0, epoch: 0, loss: 1, rate: 0, skipped: 0, outcome: "",
  reason: "", done: 0, total: null, left: null, ...facts,
});

test("the training that is told of outside is the one that runs, else paused, else the latest", () => {
  const [idle, paused, running, later] = [row({ key: "a", step: 9 }), row({ key: "b", status: "paused" }), row({ key: "c", status: "running" }), row({ key: "d", step: 1 })];
  assert.equal(foremost([idle, paused, running, later])?.key, "c");
  assert.equal(foremost([idle, paused, later])?.key, "b");
  assert.equal(foremost([idle, later, row({ key: "new" })])?.key, "d");
  assert.equal(foremost([row({})]), undefined);
});

test("titles begin with how far it is, and are found again", () => {
  assert.equal(markOf(row({ status: "running", done: 21, total: 50 })), "42 %");
  assert.equal(markOf(row({ status: "running" })), "▸");
  assert.equal(markOf(row({ status: "paused", done: 21, total: 50 })), "‖");
  assert.equal(markOf(row({ done: 50, total: 50 })), "");
  for (const mark of ["42 %", "▸", "‖"]) assert.equal(`${mark} a 5 % b.ipynb`.replace(BEFORE, ""), "a 5 % b.ipynb");
  assert.equal(fraction({ done: 60, total: 50 }), 1);
});

test("a curve that grows for ever is thinned, and keeps its last point", () => {
  let curve: Curve | undefined;
  for (let step = 0; step < 30_000; step += 100) {
    const steps = Array.from({ length: 100 }, (_, k) => step + k);
    curve = extended(curve, false, steps, steps);
  }
  assert(curve!.steps.length <= 8000);
  assert.equal(curve!.steps.at(-1), 29_999);
  assert.deepEqual(extended(curve, true, [1], ["NaN"]), { steps: [1], losses: [NaN] });
});

test("a sparkline leaves gaps for what is not finite", () => {
  assert.equal(pathOf({ steps: [1], losses: [1] }), "");
  assert.equal(pathOf({ steps: [0, 1, 2, 3], losses: [3, NaN, 1, 2] }).match(/M/g)?.length, 2);
  assert(!pathOf({ steps: [0, 1], losses: [1, 1] }).includes("NaN"));
});

test("a file of the kernel is a path of the server only below its root", () => {
  assert.equal(servedPath("/srv/work/a/b.py", "/srv/work/"), "a/b.py");
  assert.equal(servedPath("/srv/workshop/b.py", "/srv/work"), undefined);
  assert.equal(servedPath("/home/me/work/b.py", "~/work"), "b.py");
  assert.equal(servedPath("/home/me/other/work/b.py", "~/work"), undefined);
  assert.equal(servedPath("C:\\Users\\me\\w\\b.py", "~/w"), "b.py");
  assert.equal(servedPath("/b.py", ""), undefined);
});

test("what a run has recorded grows, and a training that went on from before drops what was after", () => {
  const first = added(NEW, { next: 10, cut: { step: 0, epoch: 0 }, steps: { step: [1, 2, 3], epoch: [1, 1, 2], loss: [3, 2, 1] }, epochs: { step: [2], epoch: [1], val_loss: [2.5] } });
  const second = added(first, { next: 20, cut: { step: 2, epoch: 1 }, steps: { step: [3], epoch: [2], loss: [null], rate: ["Infinity"] }, epochs: {} });
  assert.deepEqual(second.steps.step, [1, 2, 3]);
  assert.deepEqual(second.steps.rate, [null, null, "Infinity"]);
  assert.deepEqual(metricsOf([second]), ["val_loss", "each step: loss", "each step: rate"]);
  assert.deepEqual(points(second, "each step: loss", "step"), { x: [1, 2, 3], y: [3, 2, NaN] });
  assert.deepEqual(points(second, "each step: rate", "step").y, [NaN, NaN, Infinity]);
  assert.deepEqual(points(second, "val_loss", "epoch"), { x: [1], y: [2.5] });
  assert.deepEqual(points(second, "nothing", "epoch"), { x: [], y: [] });
  assert.deepEqual(spread([1, 1, 2, 2]), [0.5, 1, 1.5, 2]);
});

test("a curve of a long run is drawn by ten thousand points, the last among them", () => {
  const step = Array.from({ length: 25_000 }, (_, k) => k + 1);
  const { x } = points(added(NEW, { next: 1, cut: null, steps: { step, loss: step }, epochs: {} }), "each step: loss", "step");
  assert(x.length <= 10_000 && x.at(-1) === 25_000);
});
