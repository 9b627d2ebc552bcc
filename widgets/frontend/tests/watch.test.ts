// The strip of a watch: where looks stand, the band of noise, and what the kernel tells of them.
import { test } from "node:test";
import assert from "node:assert/strict";
import { band, Scales } from "../src/panels/check/strip";
import { WatchStore, type Look } from "../src/panels/check/watch_store";

const look = (step: number, error: number, noise = 1e-6): Look => ({ step, error, noise, verdict: "ok", name: "w", kind: "node" });

test("steps run to the right, errors upwards, and every look has a place", () => {
  const looks = [look(10, 1e-12), look(20, 0), look(30, Infinity, Infinity), look(40, 0.3)];
  const scales = new Scales(looks, 400, 92);
  const x = looks.map(({ step }) => scales.x(step));
  assert.deepEqual(x, [...x].sort((a, b) => a - b));
  const [small, none, lost, large] = looks.map(({ error }) => scales.y(error));
  assert(none > small && small > large && large > lost && lost >= 0 && none <= 92);
  assert.equal(scales.nearest(looks, scales.x(40) + 3, scales.y(0.3)), looks[3]);
  assert.equal(scales.nearest(looks, scales.x(20), 5), undefined);
  assert(Number.isFinite(new Scales([], 400, 92).x(1)));
  assert(Number.isFinite(new Scales([look(7, 1e-9)], 400, 92).x(7)));
});

test("the band is as high as the largest noise of its steps", () => {
  const looks = [look(0, 0, 1e-6), look(1, 0, 3e-6), look(1000, 0, 1e-7), look(1000, 0, Infinity)];
  const steps = band(looks, new Scales(looks, 400, 92));
  assert.deepEqual(steps.map(({ noise }) => noise), [3e-6, 1e-7]);
  assert(steps[0].x < steps[1].x);
});

test("looks come as columns", () => {
  const store = new WatchStore();
  const view = (list: Float64Array | Uint8Array | Int32Array): DataView => new DataView(list.buffer);
  const facts = { kind: "watch.points" as const, names: ["a", "w"], kinds: ["node" as const, "element" as const], worst: "w", alarms: [], share: 0.02, rounds: 1, looks: 9 };
  assert(store.take(facts, [view(new Float64Array([3, 6])), view(new Float64Array([1e-9, 0.5])), view(new Float64Array([1e-6, 1e-6])), view(new Uint8Array([0, 4])), view(new Int32Array([0, 1]))]));
  assert.deepEqual(store.looks.map(({ step, name, verdict, kind }) => [step, name, verdict, kind]), [[3, "a", "ok", "node"], [6, "w", "fail", "element"]]);
});
