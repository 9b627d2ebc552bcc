// Groups that the kernel has found: cards, blocks and runs take the place of scopes made of names.
import { test } from "node:test";
import assert from "node:assert/strict";
import type { Model } from "../src/core/afm";
import { mainRow } from "../src/panels/graph/model/card_face";
import { describe, itemSize } from "../src/panels/graph/model/describe";
import { dotOf } from "../src/panels/graph/dot";
import { Drawing } from "../src/panels/graph/picture/drawing";
import { LayoutEngine, ONE_COLUMN } from "../src/panels/graph/layout/engine";
import { find } from "../src/panels/graph/model/finder";
import { openAtFirst } from "../src/panels/graph/layout/first";
import { spliced } from "../src/panels/graph/model/insides";
import { frozenOf, marksOf } from "../src/panels/graph/picture/marks";
import { GraphModel } from "../src/panels/graph/model/model";
import { OpenScopes } from "../src/panels/graph/layout/open_scopes";
import { Overlay } from "../src/panels/graph/picture/overlay";
import type { GraphSpec } from "../src/panels/graph/model/wire";
import { specOf, type Plain } from "./support/graphs";

const NODES: Plain[] = [
  { name: "x", kind: "placeholder" },
  { name: "w", kind: "variable" },
  { name: "size", op: "size_at", inputs: ["x"] },
  { name: "n1", op: "matmul", inputs: ["x", "w"] },
  { name: "n2", op: "relu", inputs: ["n1"] },
  { name: "n3", op: "matmul", inputs: ["n2", "w"] },
  { name: "n4", op: "relu", inputs: ["n3"] },
  { name: "n5", op: "matmul", inputs: ["n4", "w"] },
  { name: "n6", op: "relu", inputs: ["n5", "size"] },
  { name: "loss", op: "sum", inputs: ["n6"] },
];
const LINEAR = ["linear 8 → 8", "relu"];
const RUN = 0;

/** A run of three cards that are alike, and the loss in a card of its own; the first card holds what is stored. */
function grouped(nodes = NODES, last = -1): GraphSpec {
  const view = (list: number[]): DataView => new DataView(Int32Array.from(list).buffer);
  const byte = (list: number[]): DataView => new DataView(Uint8Array.from(list).buffer);
  return {
    ...specOf(nodes),
    groups: {
      names: ["linear × 3", "n1", "n3", "n5", "end/loss"], titles: ["linear × 3", "first", "", "", ""], notes: ["3 × (linear)", "1 w · shape", "", "", ""],
      rows: [[], LINEAR, LINEAR, LINEAR, ["sum"]], categories: [[], ["linear", "activation"], ["linear", "activation"], ["linear", "activation"], ["reduce"]],
      parent: view([-1, RUN, RUN, RUN, -1]), kind: byte([2, 1, 1, 1, 1]), like: view([0, 1, 1, 1, 4]),
    },
    group: view([-1, 1, 1, 1, 1, 2, 2, 3, 3, 4, ...nodes.slice(10).map(() => last)]),
    role: byte([0, 1, 2, 0, 0, 0, 0, 0, 0, 0, ...nodes.slice(10).map(() => 0)]),
  };
}

const scene = (graph: GraphModel, open: string[]): Drawing =>
  new Drawing(graph, new LayoutEngine(graph, ONE_COLUMN).layout(open.map((path) => graph.scope(path))));

function widget(expanded: string[] | null): Model & { expanded(): string[] } {
  const state: Record<string, unknown> = { expanded };
  return { get: (key: string) => state[key], set: (key: string, value: unknown) => void (state[key] = value), save_changes: () => undefined, expanded: () => state.expanded } as never;
}

test("groups are scopes with titles, whatever the nodes are called", () => {
  const graph = new GraphModel(grouped());
  assert.deepEqual(graph.members(0).map((item) => graph.itemName(item)), ["x", "linear × 3/", "end/loss/"]);
  assert.deepEqual(graph.scopes.map(({ kind, label, depth, like }) => [kind, label, depth, like]).slice(1, 4), [
    ["run", "linear × 3", 1, 1], ["card", "first", 2, 2], ["card", "linear 8 → 8", 2, 2],
  ]);
  assert.equal(graph.itemName(graph.itemOf("end/loss/")), "end/loss/");
  assert.equal(graph.scopeOf[graph.node("w")], graph.scope("n1"));
});

test("a card says its rows, and is called after the one that counts", () => {
  const graph = new GraphModel(grouped());
  const [first, other, end] = ["n1", "n3", "end/loss"].map((path) => describe(graph, graph.n + graph.scope(path)));
  assert.deepEqual([first.shape, first.title, first.note, first.category], ["card", "first", "linear 8 → 8 · relu · 1 w · shape", "linear"]);
  assert.deepEqual([other.title, other.note], ["linear 8 → 8", "relu"]);
  assert.deepEqual([end.title, end.note, end.category], ["sum", "", "reduce"]);
  assert.equal(mainRow(["norm", "activation", "linear"]), 2);
  assert(itemSize(first).height > itemSize(other).height && itemSize(other).height > itemSize(end).height);
  const run = describe(graph, graph.n + graph.scope("linear × 3"));
  assert.deepEqual([run.shape, run.title, run.note], ["scope", "linear × 3", "3 × (linear)"]);
});

test("weights and sizes that several cards read are no lines between them", () => {
  const graph = new GraphModel(grouped());
  const lines = (open: string[]): [string, string][] => {
    const { scene: { pieceFrom, pieceTo } } = scene(graph, open);
    const found: [string, string][] = [];
    pieceFrom.forEach((from, p) => from >= 0 && pieceTo[p] >= 0 && found.push([graph.itemName(from), graph.itemName(pieceTo[p])]));
    return found;
  };
  assert.deepEqual(lines(["linear × 3"]).filter(([from]) => from === "n1/"), [["n1/", "n3/"]]);
  assert.deepEqual(lines(["linear × 3", "n1"]).filter(([from]) => from === "w"), [["w", "n1"]], "inside of its own card it is one");
  assert(dotOf(graph, scene(graph, ["linear × 3"]).scene).includes("linear 8 → 8"));
});

test("what repeats opens and closes together, and cards stay closed at first", () => {
  const graph = new GraphModel(grouped());
  const model = widget(null);
  const scopes = new OpenScopes(graph, model);
  assert.deepEqual(openAtFirst(graph).map((s) => graph.scopes[s].path), ["linear × 3"]);
  scopes.set(graph.itemOf("n3/"), true);
  assert.deepEqual(model.expanded(), ["linear × 3", "n1", "n3", "n5"]);
  scopes.set(graph.itemOf("n1/"), false);
  assert.deepEqual(model.expanded(), ["linear × 3"]);
  scopes.set(graph.itemOf("end/loss/"), true);
  assert.deepEqual(model.expanded(), ["end/loss", "linear × 3"], "which repeats nothing");
});

test("a node is found, stepped to and coloured in its card", () => {
  const graph = new GraphModel(grouped());
  const { wires, isDrawn } = scene(graph, ["linear × 3"]);
  const marks = marksOf(graph, wires, isDrawn, { current: "n4", stops: ["w"], blamed: ["loss"] });
  const at = (path: string): number => graph.n + graph.scope(path);
  assert.deepEqual([marks.current, [...marks.stops], [...marks.blamed]], [at("n3"), [at("n1")], [at("end/loss")]]);
  assert.deepEqual([...frozenOf(graph, ["w"])], [graph.node("w"), at("n1")]);
  const values = Float64Array.from(NODES, (_, k) => k);
  const overlay = Overlay.of(graph, "overlay", { title: "t", unit: "", scale: "linear", values: new DataView(values.buffer) });
  assert.deepEqual([overlay?.values[at("n3")], overlay?.values[at("linear × 3")]], [6, 8]);
});

test("rows are found as they are typed", () => {
  const graph = new GraphModel(grouped());
  const names = (query: string): string[] => find(graph, query).items.map((item) => graph.itemName(item));
  assert.deepEqual(names("linear 8 -> 8"), ["n1/", "n3/", "n5/"]);
  assert.deepEqual(names("linear 8 → 8"), names("linear 8 -> 8"));
  assert.deepEqual(names("linear x 3"), ["linear × 3/"]);
  assert.deepEqual(names("1 w · shape"), ["n1/"]);
});

test("an address opens the card around its node", () => {
  const model = widget([]);
  new OpenScopes(new GraphModel(grouped()), model).to("n3::inner/mean");
  assert.deepEqual(model.expanded(), ["linear × 3", "n3", "n3::", "n3::inner"]);
});

test("gradients stand beside cards", () => {
  const nodes: Plain[] = [...NODES, { name: "grad/loss/n3/matmul", op: "matmul", inputs: ["w"], of: "n3" }];
  const graph = new GraphModel(grouped(nodes));
  const twin = graph.twinOf(graph.itemOf("n3/"));
  assert.equal(graph.itemName(twin), "grad/loss/n3/");
  assert.equal(describe(graph, twin).title, "∂ linear 8 → 8");
  assert.equal(graph.pairOf(twin), graph.itemOf("n3/"));
  assert.equal(graph.itemOf("grad/loss/n3/"), twin);
});

test("an opened node keeps its card", () => {
  const inside = specOf([{ name: "n3::in", kind: "placeholder" }, { name: "n3::w", kind: "constant" }, { name: "n3::mul", op: "mul", inputs: ["n3::in", "n3::w"] }]);
  const none = new DataView(new ArrayBuffer(0));
  const graph = new GraphModel(spliced(grouped(), { n3: { ...inside, entries: none, exits: none } }));
  const frame = graph.frameOf(graph.node("n3"));
  assert.equal(graph.scopes[frame - graph.n].parent, graph.scope("n3"));
  assert.deepEqual([graph.role(graph.node("n3::w")), graph.role(graph.node("n3::mul")), graph.role(graph.node("w"))], [1, 0, 1]);
  assert.deepEqual(scene(graph, ["linear × 3", "n3", "n3::"]).isDrawn(graph.node("n3::mul")), true);
});

test("a search finds cards by what is written on them, as it can be typed", () => {
  const graph = new GraphModel(grouped());
  const found = (query: string): string[] => find(graph, query).items.map((item) => graph.itemName(item));
  assert.deepEqual(found("linear 8 -> 8"), ["n1/", "n3/", "n5/"], "an arrow of a title");
  assert.deepEqual(found("linear* -> relu").slice(0, 3), ["n1/", "n3/", "n5/"], "rows one below the other");
  assert.deepEqual(found("relu -> linear"), []);
  assert.deepEqual(found("matmul -> relu"), ["n1", "n3", "n5"], "and nodes, whatever card they are in");
  assert.deepEqual(found("layer:first"), ["n1/"]);
  assert.deepEqual(found("linear x 3"), ["linear × 3/"]);
});
