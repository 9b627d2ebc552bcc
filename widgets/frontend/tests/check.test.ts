// The gradient check: where elements stand, what the page knows of a check that grows, words.
import { test } from "node:test";
import assert from "node:assert/strict";
import { gridOf, heat, indexOf, placeOf } from "../src/panels/check/heatmap";
import { CheckStore, placeKey, type NodeRow, type ParameterRow } from "../src/panels/check/store";
import { errorText } from "../src/core/format";
import { secondsText, waysText, wayText } from "../src/panels/check/words";

const view = (array: ArrayBufferView): DataView => {
  const shifted = new Uint8Array(array.byteLength + 3); // messages do not keep buffers aligned
  shifted.set(new Uint8Array(array.buffer, array.byteOffset, array.byteLength), 3);
  return new DataView(shifted.buffer, 3);
};
const node = (name: string): NodeRow => ({ name, op: "add", verdict: "ok", reason: "", where: "", error: 0, seconds: 0, faults: [] });
const row = (name: string, checked: number): ParameterRow => ({
  name, shape: [4], size: 4, checked, direction: false, kinks: 0, certified: 0, differenced: 0, probed: checked, surrogates: [], error: 0, verdict: "ok", where: "", troubles: [],
});
const rows = (run: number, first: number, nodes: NodeRow[], parameters: ParameterRow[] = []) => ({
  kind: "check.rows" as const, run, loss: "loss", value: "1", feeds: "", training: false, done: 0, total: 1, name: "", seconds: 0,
  curves: true, error: "", findings: [], first, nodes, parameters,
});

test("an element's index and its place in memory belong together", () => {
  const shape = [2, 3, 4];
  for (let at = 0; at < 24; at++) assert.equal(placeOf(indexOf(at, shape), shape), at);
  assert.deepEqual(indexOf(23, shape), [1, 2, 3]);
  assert.deepEqual([indexOf(0, []), placeOf([], [])], [[], 0]);
});

test("maps have rows along the first axis, and long vectors wrap", () => {
  assert.deepEqual(gridOf([64, 3, 3], 2), { rows: 64, columns: 9 });
  assert.deepEqual(gridOf([], 2), { rows: 1, columns: 1 });
  assert.deepEqual(gridOf([10], 2), { rows: 1, columns: 10 });
  const { rows: r, columns: c } = gridOf([1000], 2.5);
  assert(c === 50 && r === 20);
  assert.deepEqual(gridOf([0, 4], 2), { rows: 1, columns: 1 });
});

test("heat is logarithmic between 1e-12 and 1", () => {
  assert.deepEqual([0, 1e-14, 1e-12, 1, 2].map(heat), [0, 0, 0, 1, 1]);
  assert(Math.abs(heat(1e-6) - 0.5) < 1e-12);
});

test("rows grow, a gap is noticed, a new check starts anew", () => {
  const store = new CheckStore();
  assert(store.take(rows(1, 0, [node("a"), node("b")], [row("w", 1)]), []));
  assert(store.take(rows(1, 2, [node("c")], [row("w", 3)]), []));
  assert.deepEqual(store.nodes.map(({ name }) => name), ["a", "b", "c"]);
  assert.equal(store.parameters.get("w")!.checked, 3);
  assert.equal(store.take(rows(1, 5, [node("f")]), []), false);
  assert(store.take(rows(2, 0, [], []), []));
  assert.deepEqual([store.nodes.length, store.parameters.size, store.facts!.run], [0, 0, 2]);
  assert.equal(store.take(rows(3, 1, [node("b")]), []), false);
});

test("maps and curves of an earlier check are left alone", () => {
  const store = new CheckStore();
  store.take(rows(2, 0, []), []);
  const buffers = [new Int32Array([1, 3]), new Uint8Array([1, 4]), new Uint8Array([1, 3]), new Float64Array([0, 0.5]), new Float64Array([1, 2]), new Float64Array([1, 4])].map(view);
  const map = { kind: "check.map" as const, name: "w", shape: [4], complex: false, known: ["unchecked", "ok", "kink", "unclear", "fail"] };
  assert(store.take({ ...map, run: 1 }, buffers));
  assert.equal(store.maps.size, 0);
  assert(store.take({ ...map, run: 2 }, buffers));
  const { at, verdicts, ways, errors, numeric } = store.maps.get("w")!;
  assert.deepEqual([[...at], verdicts, [...ways].map(wayText), [...errors], [...numeric]], [[1, 3], ["ok", "fail"], ["certified by the chain", "by differences, alone"], [0, 0.5], [1, 4]]);
  const place = { name: "w", index: [3], part: "real" };
  const curve = [new Float64Array([1, 2, 3, 4, 5, 6]), ...Array.from({ length: 5 }, () => new Float64Array(2))].map(view);
  assert(store.take({ kind: "check.curve", run: 2, ...place } as never, curve));
  assert.deepEqual([store.curves.get(placeKey(place))!.analytic, store.curves.get(placeKey(place))!.right], [3, 6]);
});

test("errors and times are short", () => {
  assert.deepEqual([0, 3.2e-9, 0.5, 1.234, null].map(errorText), ["0", "3e−9", "0.5", "1.2", "NaN"]);
  assert.equal(waysText({ certified: 768, differenced: 0, probed: 2 }), "768 certified by the chain, 2 by differences, one by one");
  assert.deepEqual([2e-5, 0.0123, 2.34, 34.2, 150].map(secondsText), ["20 µs", "12 ms", "2.3 s", "34 s", "3 min"]);
});
