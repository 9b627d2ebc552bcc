// The stepper without a page: names and values of a level, and a recording that is walked both ways.
import { test } from "node:test";
import assert from "node:assert/strict";
import { Player, type Recording } from "../src/panels/stepper/player";
import { dimsText, exactly, flawText, spanText, stepping, Steps } from "../src/panels/stepper/steps";
import type { Model } from "../src/core/afm";

function buffer(values: number[]): DataView {
  return new DataView(new Int32Array(values).buffer);
}

test("words of a row", () => {
  assert.equal(spanText(-1, 2.5), "−1 … 2.5");
  assert.equal(spanText(3, 3), "3");
  assert.equal(spanText(null, null), "");
  assert.equal(flawText(1200, 0), "1,200 NaN");
  assert.equal(flawText(1, 2), "1 NaN, 2 Inf");
  assert.equal(dimsText("f32[B, 64]"), "B × 64");
  assert.equal(dimsText("f32[]"), "scalar");
  assert.equal(exactly("a[0]*?"), "a[[]0][*][?]");
});

test("values are asked for once they are missing or of an older epoch", () => {
  const steps = new Steps();
  steps.takeLevel({ level: 3, names: ["a", "b", "c"], ops: ["exp", "sum"], specs: ["f32[2]"], split: 2 }, [buffer([0, 0, 1]), buffer([0, 0, 0])]);
  assert.deepEqual([steps.op(0), steps.op(2), steps.spec(2)], ["exp", "sum", "f32[2]"]);
  steps.takeRows([[0, 1, 2, 0, 0, [2]], [1, 1, 2, 0, 0, [2]]], 3, 0);
  assert.equal(steps.missing(0, 2, 0), undefined);
  assert.equal(steps.missing(0, 3, 0), 2);
  assert.equal(steps.missing(0, 2, 1), 0);
  steps.takeRows([[0, 9, 9, 0, 0, [2]]], 4, 1); // of a level that was left meanwhile
  assert.equal(steps.row(0)?.[1], 1);
  steps.takeRows([[0, 5, 5, 0, 0, [2]]], 3, 1);
  assert.equal(steps.row(0)?.[1], 5);
  assert.equal(steps.missing(0, 2, 1), 1);
});

function record(failed = -1): { model: Model; player: Player } {
  const names = ["product", "loss", "grad/loss", "grad/product"];
  const run: Recording = {
    position: 1, failed, error: failed < 0 ? "" : "sum 'loss' failed\nValueError: no", note: "",
    nodes: names.map((name, index) => ({ index, name, path: name, op: `${name}()`, where: "cell 1, line 1", of: index > 1 ? names[3 - index] : "", inside: false, in: [index], out: [index + 1] })),
    tensors: ["x", ...names].map((name, k) => ({ name, spec: "f32[1]", range: [k, k, 0, 0], thumb: [k, 1, 1] })),
    rows: names.map((_, k) => [k, k, k, 0, 0, [1]]),
    watches: [{ text: 't["loss"]', value: "2", known: 2 }],
  };
  const state: Record<string, unknown> = { stepping: { crumbs: ["net", "inner"], source: "x 1" } };
  const model = { get: (key: string) => state[key], set: (key: string, value: unknown) => void (state[key] = value) } as unknown as Model;
  return { model, player: new Player(model, run, new DataView(Uint8Array.from([10, 11, 12, 13, 14]).buffer)) };
}

test("a recording walks forwards and backwards and knows what is known where", () => {
  const { model, player } = record();
  const at = () => stepping(model);
  assert.deepEqual([at().position, model.get("current"), at().crumbs], [1, "loss", ["net"]]);
  assert.deepEqual(model.get("watches"), [{ text: 't["loss"]', waits: true }]);
  const [given, made] = at().focus!.tensors;
  assert.deepEqual([given.name, given.range, given.thumb!.getUint8(0)], ["product", [1, 1, 0, 0], 11]);
  assert.deepEqual(made, { name: "loss", spec: "f32[1]", side: "out" });
  assert(player.move("step"));
  assert.deepEqual([model.get("current"), model.get("watches")], ["grad/loss", [{ text: 't["loss"]', value: "2" }]]);
  player.look("loss");
  assert.deepEqual(at().focus!.tensors[1].range, [2, 2, 0, 0]);
  player.move("run");
  assert.deepEqual([at().position, model.get("current"), at().say], [4, "", "Everything has run."]);
  player.move("step");
  assert.equal(at().position, 4);
  player.move("back");
  player.move("into_gradient", "product");
  assert.equal(model.get("current"), "grad/product");
  player.move("into_gradient");
  assert.equal(model.get("current"), "grad/loss");
  player.move("run_to", "product");
  assert.equal(at().position, 0);
  player.move("back");
  assert.equal(at().position, 0);
  assert.equal(player.move("into"), false);
});

test("a recording of a run that failed ends at the op that failed", () => {
  const { model, player } = record(1);
  player.move("run");
  assert.deepEqual([stepping(model).position, stepping(model).tone, stepping(model).failed], [1, "error", 1]);
  player.move("step");
  assert.equal(stepping(model).position, 1);
  player.move("back");
  assert.deepEqual([stepping(model).position, stepping(model).tone], [0, ""]);
});
