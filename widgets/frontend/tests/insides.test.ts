// Opened nodes: what they enclose stands in the drawing as scopes do, joined to their arguments and results.
import { test } from "node:test";
import assert from "node:assert/strict";
import { int32 } from "../src/core/buffers";
import { describe, itemSize } from "../src/panels/graph/model/describe";
import { Drawing } from "../src/panels/graph/picture/drawing";
import { LayoutEngine, ONE_COLUMN } from "../src/panels/graph/layout/engine";
import { find } from "../src/panels/graph/model/finder";
import { spliced, type Insides, type InsideSpec } from "../src/panels/graph/model/insides";
import { itemAround, marksOf } from "../src/panels/graph/picture/marks";
import { GraphModel } from "../src/panels/graph/model/model";
import { anywhere, enclosing, leaf } from "../src/panels/graph/model/names";
import { Overlay } from "../src/panels/graph/picture/overlay";
import { DEAD, pathOf } from "../src/panels/graph/picture/path";
import type { Scene } from "../src/panels/graph/layout/scene";
import { argumentsOf, inputsOf, reach } from "../src/panels/graph/model/trace";
import type { GraphSpec } from "../src/panels/graph/model/wire";
import { differentiated, specOf, type Plain } from "./support/graphs";

/** What a node encloses: nodes by address, which argument is which of them, and which of them it takes. */
function inside(nodes: Plain[], entries: [number, string][], exits: string[], back: [string, string][] = []): InsideSpec {
  const { edges, ...columns } = specOf(nodes);
  const index = (name: string): number => nodes.findIndex((node) => node.name === name);
  const view = (list: number[]): DataView => new DataView(Int32Array.from(list).buffer);
  return {
    ...columns,
    edges: view([...int32(edges), ...back.flatMap(([from, to]) => [index(from), index(to), 9])]),
    entries: view(entries.flatMap(([position, name]) => [position, index(name)])),
    exits: view(exits.flatMap((name, k) => [index(name), 20 + k])),
  };
}

const OUTER: Plain[] = [
  { name: "x", kind: "placeholder" },
  { name: "p", kind: "placeholder" },
  { name: "body/w", kind: "variable" },
  { name: "body/loop", op: "open_scan", inputs: ["body/w", "x"] },
  { name: "after", op: "exp", inputs: ["body/loop"] },
  { name: "choose", op: "open_cond", inputs: ["p", "after"] },
  { name: "loss", op: "sum", inputs: ["choose", "x"] },
];
const INSIDES: Insides = {
  "body/loop": inside(
    [
      { name: "body/loop::carry", kind: "placeholder" },
      { name: "body/loop::captured/x", kind: "placeholder" },
      { name: "body/loop::cell/norm", op: "open_norm", inputs: ["body/loop::carry"] },
      { name: "body/loop::cell/add", op: "add", inputs: ["body/loop::cell/norm", "body/loop::captured/x"] },
    ],
    [[0, "body/loop::carry"], [1, "body/loop::captured/x"]], ["body/loop::cell/add"], [["body/loop::cell/add", "body/loop::carry"]],
  ),
  "body/loop::cell/norm": inside(
    [
      { name: "body/loop::cell/norm::in0", kind: "placeholder" },
      { name: "body/loop::cell/norm::mean", op: "mean", inputs: ["body/loop::cell/norm::in0"] },
    ],
    [[0, "body/loop::cell/norm::in0"]], ["body/loop::cell/norm::mean"],
  ),
  choose: inside(
    [
      { name: "choose:then:a", kind: "placeholder" },
      { name: "choose:then:mul", op: "mul", inputs: ["choose:then:a"] },
      { name: "choose:else:a", kind: "placeholder" },
      { name: "choose:else:sub", op: "sub", inputs: ["choose:else:a"] },
    ],
    [[1, "choose:then:a"], [1, "choose:else:a"]], ["choose:then:mul", "choose:else:sub"],
  ),
};
const ALL = ["body", "body/loop::", "body/loop::cell", "body/loop::cell/norm::", "choose::", "choose:then:", "choose:else:"];

const opened = (spec: GraphSpec = specOf(OUTER), insides = INSIDES): GraphModel => new GraphModel(spliced(spec, insides));
const sceneOf = (model: GraphModel, open: string[]): Scene => new LayoutEngine(model, ONE_COLUMN).layout(open.map((path) => model.scope(path)));
const drawn = (model: GraphModel, { items }: Scene): string[] => [...items].map((item) => (model.isOpened(item) ? "= " : "") + model.itemName(item));
const rectOf = (scene: Scene, item: number): number[] => [...scene.rects.subarray(4 * scene.items.indexOf(item), 4 * scene.items.indexOf(item) + 4)];

test("what is inside comes before its node, and all edges lead where they led", () => {
  const model = opened();
  const before = new GraphModel(specOf(OUTER));
  const feeds = (graph: GraphModel, name: string): string[] => inputsOf(graph, graph.node(name)).map((node) => graph.spec.names[node]);
  for (const name of ["after", "loss"]) assert.deepEqual(feeds(model, name), feeds(before, name), name);
  assert.deepEqual(feeds(model, "body/loop::carry"), ["body/w", "body/loop::cell/add"], "a carry comes from before, and from the step before");
  assert.deepEqual(feeds(model, "body/loop::captured/x"), ["x"]);
  assert.deepEqual(feeds(model, "body/loop::cell/norm"), ["body/loop::cell/norm::mean"]);
  assert.deepEqual(feeds(model, "body/loop"), ["body/loop::cell/add"]);
  assert.deepEqual(feeds(model, "choose"), ["p", "choose:then:mul", "choose:else:sub"]);
  const sorted = [...model.edgeTarget.keys()].map((e) => model.edgeTarget[e] * 100 + model.edgePosition[e]);
  assert.deepEqual(sorted, [...sorted].sort((a, b) => a - b));
  const back = [...model.edgeTarget.keys()].filter((e) => model.nodeOf[model.edgeTensor[e]] >= model.edgeTarget[e]);
  assert.equal(back.length, 1, "only the carry runs back");
  const all = reach(model, [model.node("loss")], true).reduce((sum, flag) => sum + flag, 0);
  assert.equal(all, model.n, "all of it feeds the loss");
  assert.deepEqual([...model.sent].filter((k) => k >= 0), [...specOf(OUTER).names.keys()]);
});

test("an inside whose node is gone is left out, in whichever order they come", () => {
  const others = Object.fromEntries(Object.entries(INSIDES).filter(([name]) => name !== "body/loop"));
  assert.equal(opened(specOf(OUTER), others).n, OUTER.length + 4);
  const turned = Object.fromEntries(Object.entries(INSIDES).reverse());
  assert.deepEqual(opened(specOf(OUTER), turned).spec.names, opened().spec.names);
});

test("frames have the names of their nodes, scopes inside stay scopes, inputs are in none", () => {
  const model = opened();
  const scene = sceneOf(model, ALL);
  assert.deepEqual(drawn(model, scene).sort(), [
    "= body/loop", "= body/loop::cell/norm", "= choose", "after", "body/", "body/loop", "body/loop::captured/x", "body/loop::carry", "body/loop::cell/",
    "body/loop::cell/add", "body/loop::cell/norm", "body/loop::cell/norm::in0", "body/loop::cell/norm::mean", "body/w", "choose", "choose:else:/", "choose:else:a",
    "choose:else:sub", "choose:then:/", "choose:then:a", "choose:then:mul", "loss", "p", "x",
  ]);
  for (const item of scene.items) if (!model.isOpened(item)) assert.equal(model.itemOf(model.itemName(item)), item, model.itemName(item));
  assert.equal(model.itemName(model.itemOf("body/loop:3:cell/add")), "body/loop::cell/add", "in any turn");
  assert.equal(describe(model, model.itemOf("choose:then:/")).title, "then");
  assert.equal(describe(model, model.node("choose")).title, "result");
  assert.equal(describe(model, model.itemOf("choose")).title, "choose");
});

test("what stands around an opened node keeps its order, and what is in its frame stands in it", () => {
  const closed = new GraphModel(specOf(OUTER));
  const model = opened();
  const order = (graph: GraphModel, scene: Scene): string[] =>
    ["x", "p", "body/w", "body/loop", "after", "choose", "loss"].sort((a, b) => rectOf(scene, graph.itemOf(a))[1] - rectOf(scene, graph.itemOf(b))[1] || rectOf(scene, graph.itemOf(a))[0] - rectOf(scene, graph.itemOf(b))[0]);
  const scene = sceneOf(model, ALL);
  const rows = order(model, scene).filter((name) => !["x", "p", "body/w"].includes(name)); // what feeds others stands as near to them as it can
  assert.deepEqual(rows, order(closed, sceneOf(closed, ["body"])).filter((name) => rows.includes(name)));
  const [x, y, w, h] = rectOf(scene, model.itemOf("body/loop"));
  for (const name of ["body/loop::carry", "body/loop::cell/add", "body/loop::cell/norm::mean"]) {
    const [left, top, width, height] = rectOf(scene, model.itemOf(name));
    assert(left >= x && top >= y && left + width <= x + w && top + height <= y + h, name);
  }
});

test("an opened node that is closed again looks as before", () => {
  const closed = new GraphModel(specOf(OUTER));
  const model = opened();
  const [before, after] = [sceneOf(closed, ["body"]), sceneOf(model, ["body"])];
  for (const name of OUTER.map((node) => node.name)) {
    assert.deepEqual(describe(model, model.itemOf(name)), describe(closed, closed.itemOf(name)), name);
    assert.deepEqual(rectOf(after, model.itemOf(name)), rectOf(before, closed.itemOf(name)), name);
  }
  assert.deepEqual(after.pieces, before.pieces);
  assert.deepEqual(argumentsOf(model, model.itemOf("choose")).map(({ position }) => position), [0, 1]);
  assert.equal(itemSize(describe(closed, closed.node("choose"))).width - itemSize({ ...describe(closed, closed.node("choose")), opens: false }).width, 16);
});

test("marks and search find what is inside by its address", () => {
  const model = opened();
  const drawing = new Drawing(model, sceneOf(model, ALL));
  const at = (open: string[], name: string): string => {
    const item = marksOf(model, new Drawing(model, sceneOf(model, open)).wires, (k) => sceneOf(model, open).items.includes(k), { current: name, stops: [], blamed: [] }).current;
    return item < 0 ? "" : model.itemName(item);
  };
  assert.equal(at(ALL, "body/loop:2:cell/norm::mean"), "body/loop::cell/norm::mean");
  assert.equal(at(["body", "body/loop::"], "body/loop:2:cell/norm::mean"), "body/loop::cell/");
  assert.equal(at(["body"], "body/loop:2:cell/norm::mean"), "body/loop");
  assert.equal(at([], "choose:else:deeper::mul"), "choose");
  const unknown = new GraphModel(specOf(OUTER));
  assert.equal(unknown.itemName(itemAround(unknown, "body/loop:2:cell/norm::mean")), "body/loop", "not opened yet");
  assert.deepEqual(find(model, "op:mean").items.map((item) => model.itemName(item)), ["body/loop::cell/norm::mean"]);
  assert.deepEqual(find(model, "choose").items.map((item) => model.itemName(item)).slice(0, 1), ["choose"]);
  assert.equal(new Set(find(model, "/./").items).size, find(model, "/./").items.length);
  const marks = marksOf(model, drawing.wires, drawing.isDrawn, { current: "", stops: [], blamed: ["choose:then:mul"] });
  assert(marks.tainted!.items[model.itemOf("choose:then:a")] && !marks.tainted!.items[model.itemOf("choose:else:a")]);
});

test("gradients stand beside opened nodes, and open with them", () => {
  const spec = specOf(differentiated(OUTER));
  const closed = new GraphModel(spec);
  const model = opened(spec);
  const open = [...ALL];
  const scene = sceneOf(model, open);
  const names = drawn(model, scene);
  assert(names.includes("body/loop::cell/add"), "the inside is drawn");
  const twin = model.twinOf(model.itemOf("body/loop"));
  assert(twin >= 0 && scene.items.includes(twin));
  const [before, after] = [sceneOf(closed, ["body"]), sceneOf(model, ["body"])];
  for (const name of OUTER.map((node) => node.name)) {
    assert.deepEqual(rectOf(after, model.itemOf(name)), rectOf(before, closed.itemOf(name)), name);
    const [a, b] = [model.twinOf(model.itemOf(name)), closed.twinOf(closed.itemOf(name))];
    if (b >= 0) assert.deepEqual(rectOf(after, a), rectOf(before, b), `gradient of ${name}`);
  }
});

test("addresses as text", () => {
  assert.equal(anywhere("a/scan:12:b:3:then:c"), "a/scan::b::then:c");
  assert.equal(leaf("a/scan::cell/norm::mean"), "mean");
  assert.equal(leaf("a/scan::mean"), "mean");
  assert.deepEqual(enclosing("decoder/scan::cell/norm::mean"), ["decoder", "decoder/scan::", "decoder/scan::cell", "decoder/scan::cell/norm::"]);
  assert.deepEqual(enclosing("choose:then:mul"), ["choose::", "choose:then:"]);
  assert.deepEqual(enclosing("x"), []);
});

test("the path of a gradient leads through opened nodes, as wide as it is large there", () => {
  const model = opened();
  const names = model.spec.names.filter((_, i) => model.sent[i] >= 0);
  const norms: Record<string, number> = { loss: 1, choose: 0.1, after: 0.01, "body/loop": 0.01, "body/w": 0 };
  const values = new DataView(Float64Array.from(names, (name) => norms[name] ?? NaN).buffer);
  const inside = { "body/loop::cell/add": 0.01, "body/loop::cell/norm": 0.001, "choose:then:mul": 0.1 };
  const overlay = Overlay.of(model, "overlay", { title: "norm", unit: "", scale: "log", values, inside })!;
  const why = { nodes: ["loss", "choose", "choose:then:mul", "after", "body/loop", "body/loop:1:cell/add", "body/loop:1:cell/norm", "body/w"], culprits: ["body/loop:1:cell/norm"] };
  const drawing = new Drawing(model, sceneOf(model, ALL));
  const path = pathOf(model, drawing, why, overlay)!;
  const lit = (name: string): boolean => path.focus.items[model.itemOf(name)] === 1;
  for (const name of ["loss", "choose", "choose:then:a", "choose:then:mul", "choose:then:/", "body/", "body/loop", "body/loop::carry", "body/loop::cell/norm", "body/w"]) assert(lit(name), name);
  for (const name of ["x", "p", "choose:else:a", "choose:else:sub", "choose:else:/", "body/loop::captured/x"]) assert(!lit(name), name);
  assert.deepEqual([...path.culprits], [model.itemOf("body/loop::cell/norm")]);
  const { pieceTensor } = drawing.scene;
  const width = (name: string): number | undefined => [...path.widths].find(([piece]) => model.nodeOf[pieceTensor[piece]] === model.node(name))?.[1];
  assert.equal(width("body/w"), DEAD, "nothing comes back there");
  assert(width("choose")! > width("after")! && width("after")! > width("body/loop::cell/norm")!);
  const closed = pathOf(model, new Drawing(model, sceneOf(model, [])), why, overlay)!;
  assert.deepEqual([...closed.culprits], [model.itemOf("body/")], "what stands for it");
  assert.equal(pathOf(model, drawing, {}, overlay), undefined);
});

test("overlays: an opened node has its own value, and what is inside has one by address", () => {
  const model = opened();
  const values = new DataView(Float64Array.from(OUTER, ({ name }) => (name === "choose" ? 2 : NaN)).buffer);
  const overlay = Overlay.of(model, "overlay", { title: "e", unit: "", scale: "linear", values, inside: { "choose:then:mul": 9 } })!;
  assert.equal(overlay.values[model.itemOf("choose")], 2);
  assert.equal(overlay.values[model.itemOf("choose:then:mul")], 9);
  assert.equal(overlay.values[model.itemOf("choose:then:/")], 9);
  const size = (graph: GraphModel): number => Overlay.of(graph, "size", undefined)!.values[graph.itemOf("body/")];
  assert.equal(size(model), size(new GraphModel(specOf(OUTER))));
  const short = new DataView(new Float64Array(2).buffer);
  assert.equal(Overlay.of(model, "overlay", { title: "e", unit: "", scale: "linear", values: short }), undefined);
});
