// What a page keeps of rollouts: the numbers of the tokens that it shows, curves, and the token that is looked at.

import assert from "node:assert/strict";
import { test } from "node:test";
import { SampleStore } from "../src/panels/rollouts/store";

const buffer = (...values: number[]): DataView => new DataView(new Float32Array(values).buffer);
const sample = (row: number, start: number, ...tokens: string[]) => ({ row, start, tokens, length: tokens.length, reward: 1 });
const page = (number: number) => ({
  kind: "rollouts.page" as const, number, first: 0, found: 2, limit: 1,
  groups: [{ at: 1, prompt: "1+1=", mean: 1, rows: [sample(5, 3, "2", " "), sample(4, 3)] }, { at: 0, prompt: "", mean: null, rows: [sample(0, 2, "7")] }],
});

test("each token has its number, whatever the order of rows", () => {
  const store = new SampleStore();
  let told = 0;
  store.listen(() => told++);
  assert(store.take(page(1), [buffer(0.5, -1, 2)]));
  assert.deepEqual([store.value(5, 0), store.value(5, 1), store.value(0, 0)], [0.5, -1, 2]);
  assert(Number.isNaN(store.value(4, 0)) && Number.isNaN(store.value(9, 0)) && Number.isNaN(store.value(5, 2)));
  store.take({ ...page(1), groups: [] }, [buffer()]);
  assert(Number.isNaN(store.value(5, 0)), "of what is not shown nothing is kept");
  assert.equal(told, 2);
});

test("a token is of its rollout alone", () => {
  const store = new SampleStore();
  const token = { kind: "rollouts.token" as const, number: 1, row: 5, place: 3, at: 0, text: "2", id: 2, facts: [] };
  store.take(page(1), [buffer(0, 0, 0)]);
  store.take(token, []);
  store.take(page(1), [buffer(0, 0, 0)]);
  assert.equal(store.token?.row, 5);
  store.take(page(2), [buffer(0, 0, 0)]);
  assert.equal(store.token, undefined);
});

test("curves are those of the last message", () => {
  const store = new SampleStore();
  store.take({ kind: "rollouts.figures", numbers: [0, 1], curves: ["reward", "kl"], histograms: [] }, [buffer(1, 2, 3, NaN)]);
  assert.deepEqual(store.curves.get("reward"), [1, 2]);
  assert.deepEqual(store.curves.get("kl"), [3, NaN]);
  store.take({ kind: "rollouts.figures", numbers: [0], curves: ["reward"], histograms: [] }, [buffer(1)]);
  assert.deepEqual([...store.curves.keys()], ["reward"]);
});
