// The parameter table without a page: filters, rows and groups, sparklines, columns, frames.
import { test } from "node:test";
import assert from "node:assert/strict";
import { columnsFor, COLUMNS, ratioOf } from "../src/panels/parameters/columns";
import { filterOf } from "../src/panels/parameters/filter";
import { rowsOf, type Order, type Parameter } from "../src/panels/parameters/rows";
import { HEIGHT, nearest, pathOf, scaleOf, toX, toY } from "../src/panels/parameters/sparkline";
import { StatisticsStore, type StatisticsMessage } from "../src/panels/parameters/statistics";

const parameter = (name: string, count = 1): Parameter => ({ name, shape: [count], dtype: "f32", count, bytes: 4 * count, running: false });
const order = (changes: Partial<Order> = {}): Order => ({ fits: () => true, down: false, groups: true, closed: new Set(), ...changes });
const lines = (rows: ReturnType<typeof rowsOf>): string[] => rows.map(({ depth, label, parameter: p, open }) => `${"  ".repeat(depth)}${label}${p ? "" : open ? " -" : " +"}`);

test("a filter is a part of the name, a pattern or a regex, as in Python", () => {
  const names = ["a/w", "a/b", "B/w", "[x]", "w*"];
  const shown = (text: string): string => {
    const fits = filterOf(text);
    return typeof fits === "string" ? fits : names.filter(fits).join(" ");
  };
  const cases = { "": "a/w a/b B/w [x] w*", w: "a/w B/w w*", b: "a/b B/w", "*/w": "a/w B/w", "a/?": "a/w a/b", "[ab]/*": "a/w a/b", "[!a]/*": "B/w", "/^a/": "a/w a/b", "/w$|x/": "a/w B/w [x]", " a/ ": "a/w a/b", "(": "", "/": "a/w a/b B/w", "[z-a]*": "" };
  for (const [text, found] of Object.entries(cases)) assert.equal(shown(text), found, text);
  assert.match(shown("/[/"), /no regular expression/);
});

const deep = ["emb", "m/0/attn/q", "m/0/attn/k", "m/0/mlp/w", "m/1/attn/q", "head/w"].map((name, k) => parameter(name, k + 1));

test("groups follow the scopes; a scope that holds one scope alone shares its row", () => {
  assert.deepEqual(lines(rowsOf(deep, order())), [
    "emb", "m/ -", "  0/ -", "    attn/ -", "      q", "      k", "    mlp/ -", "      w", "  1/attn/ -", "    q", "head/ -", "  w",
  ]);
  const closed = rowsOf(deep, order({ closed: new Set(["m/0", "m/1"]) }));
  assert.deepEqual(lines(closed), ["emb", "m/ -", "  0/ +", "  1/attn/ +", "head/ -", "  w"]);
  assert.deepEqual(closed[3].scopes, ["m/1", "m/1/attn"]);
  assert.deepEqual(closed[2].members.map(({ name }) => name), ["m/0/attn/q", "m/0/attn/k", "m/0/mlp/w"]);
  assert.deepEqual(lines(rowsOf(deep, order({ groups: false })))[1], "m/0/attn/q");
});

test("groups are where their first parameter is when rows are sorted, and what is unknown comes last", () => {
  const rank = ({ name, count }: Parameter): number => (name === "emb" ? NaN : count);
  assert.deepEqual(rowsOf(deep, order({ rank, down: true, groups: false })).map(({ key }) => key), ["head/w", "m/1/attn/q", "m/0/mlp/w", "m/0/attn/k", "m/0/attn/q", "emb"]);
  const down = rowsOf(deep, order({ rank, down: true }));
  assert.deepEqual(lines(down), ["head/ -", "  w", "m/ -", "  1/attn/ -", "    q", "  0/ -", "    mlp/ -", "      w", "    attn/ -", "      k", "      q", "emb"]);
  const names = ["w10", "w9", "W1"].map((name) => parameter(name));
  assert.deepEqual(rowsOf(names, order({ rank: ({ name }) => name })).map(({ key }) => key), ["W1", "w9", "w10"]);
  assert.deepEqual(rowsOf(deep, order({ fits: (name) => name.endsWith("q") })).filter((row) => row.parameter).length, 2);
});

test("a parameter may have the name of a scope", () => {
  const rows = rowsOf(["a", "a/b", "__proto__/w", "constructor"].map((name) => parameter(name)), order());
  assert.deepEqual(rows.map(({ key }) => key), ["a", "a/", "a/b", "__proto__/", "__proto__/w", "constructor"]);
});

test("five thousand are sorted and grouped at once", () => {
  const many = Array.from({ length: 5000 }, (_, k) => parameter(`model/block${k % 50}/layer${k}/w`, k));
  const rows = rowsOf(many, order({ rank: ({ count }) => -count }));
  assert.equal(rows.length, 5000 + 5000 + 50 + 1);
});

test("a sparkline spans its steps, keeps a ratio on one scale and leaves gaps", () => {
  const scale = scaleOf([], "ratio");
  assert.deepEqual(scaleOf([1e9], "ratio"), scale);
  const [low, band, high] = [1e-9, 1e-3, 50].map((value) => toY(value, scale));
  assert(low > band && band > high && low <= HEIGHT && high >= 0);
  assert.equal(toY(0, scale), low);
  assert.equal(toY(Infinity, scale), high);
  const around = scaleOf([NaN, 0, 2, Infinity], "gradient_norm");
  assert(around.low < Math.log10(2) && around.high > Math.log10(2) && around.high - around.low >= 2);
  assert.equal(pathOf([1, 2, 3, 4], [1e-3, 1e-3, NaN, 1e-3], scale).replace(/[\d. ]+/g, ""), "MLMh");
  assert.equal(pathOf([], [], scale), "");
  assert.equal(nearest(toX(21, [1, 11, 21, 31]) + 1, [1, 11, 21, 31]), 2);
});

const frame = (layout: number, start: number, steps: number[], value: number, names = ["w", "b"]): [StatisticsMessage, DataView[]] => {
  const history = Float32Array.from(steps.flatMap((step) => names.flatMap(() => [step, step / 1000])));
  const numbers = new Float32Array(names.length * 9).fill(value);
  const views = [history, numbers, Uint8Array.from(names.flatMap((_, k) => [k, 0, 0]))].map(({ buffer }) => new DataView(buffer));
  return [{ kind: "parameters.statistics", layout, names: start ? [] : names, start, steps, sampled: true }, views];
};

test("a store joins frames, takes a sample back and notices what is missing", () => {
  const store = new StatisticsStore();
  assert(store.take(...frame(1, 0, [1, 2, 3], 5)));
  assert(store.take(...frame(1, 2, [4, 5], 7)), "the third sample stood only until the next");
  assert.deepEqual(store.steps, [1, 2, 4, 5]);
  assert.deepEqual(store.past("b", "gradient_norm"), [1, 2, 4, 5]);
  assert.equal(store.number("w", "norm"), 7);
  assert.deepEqual([store.flagged(["w"]), store.flagged(["w", "b", "b"])], [[], [["dead", 2]]]);
  assert(!store.take(...frame(1, 9, [9], 0)), "a hole");
  assert(!store.take(...frame(2, 2, [9], 0)), "another layout");
  assert.deepEqual(store.steps, [1, 2, 4, 5]);
  assert(store.take(...frame(2, 0, [9], 1, ["b"])));
  assert(Number.isNaN(store.number("w", "norm")));
  assert.deepEqual(store.past("w", "ratio"), []);
});

test("what is not trained has no ratio, and a group that of its trained members together", () => {
  const store = new StatisticsStore();
  const [message, views] = frame(1, 0, [], 0, ["s/a", "s/b", "s/c"]);
  const numbers = new Float32Array(views[1].buffer);
  // norm, gradient, update, ratio: 3, 4 and a frozen one
  [[0, 3, 1, 0.03, 0.01], [1, 4, 1, 0.04, 0.01], [2, 12, NaN, 0, 0]].forEach(([k, norm, gradient, update, ratio]) => numbers.set([norm, 0, 0, 0, gradient, update, ratio], k * 9 + 2));
  store.take(message, views);
  assert(Number.isNaN(store.number("s/c", "ratio")));
  const [group] = rowsOf(["s/a", "s/b", "s/c"].map((name) => parameter(name)), order());
  assert(Math.abs(ratioOf(group, store) - 0.05 / 5) < 1e-6);
  const text = (name: string): string => COLUMNS.find((column) => column.name === name)!.text(group, store);
  assert.deepEqual(["shape", "count", "norm", "gradient_norm", "ratio"].map(text), ["3 arrays", "3", "13", "1.41", "1.0e−2"]);
});

test("columns fit the width, and those that are chosen are shown", () => {
  const at = (width: number, sampled: boolean): string => columnsFor(width, [], sampled).map(({ name }) => name).join(" ");
  assert.equal(at(400, true), "ratio");
  assert.equal(at(500, true), "shape ratio");
  assert.equal(at(500, false), "shape count std norm");
  assert.equal(at(912, true), COLUMNS.map(({ name }) => name).join(" "));
  assert.deepEqual(columnsFor(300, ["std", "dtype", "gone"], true).map(({ name }) => name), ["dtype", "std"]);
});
