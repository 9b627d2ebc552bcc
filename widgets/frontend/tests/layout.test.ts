// What every drawing must satisfy, whatever the graph: nothing overlaps, every line arrives, nothing jumps.
import { test } from "node:test";
import assert from "node:assert/strict";
import { LayoutEngine, ONE_COLUMN } from "../src/panels/graph/layout/engine";
import { openAtFirst } from "../src/panels/graph/layout/first";
import { GraphModel } from "../src/panels/graph/model/model";
import { hit, linesOf, placesOf, PIECE, PieceFlag, type Scene } from "../src/panels/graph/layout/scene";
import { classifier, specOf, tangle, transformer, type Plain } from "./support/graphs";

const build = (nodes: Plain[]): GraphModel => new GraphModel(specOf(nodes));
const scopesOf = (model: GraphModel): number[] => model.scopes.map((_, s) => s).slice(1);
const rect = (scene: Scene, k: number): Float32Array => scene.rects.subarray(4 * k, 4 * k + 4);

function boxesOverlap(scene: Scene): boolean {
  for (let a = scene.frameCount; a < scene.items.length; a++) {
    for (let b = a + 1; b < scene.items.length; b++) {
      const [p, q] = [rect(scene, a), rect(scene, b)];
      if (p[0] < q[0] + q[2] && q[0] < p[0] + p[2] && p[1] < q[1] + q[3] && q[1] < p[1] + p[3]) return true;
    }
  }
  return false;
}

/** Whether lines lead from one drawn item to another, through bends and frames. */
function reaches(scene: Scene, from: number, to: number): boolean {
  const seen = new Set([from]);
  const pending = [from];
  for (let at = pending.pop(); at !== undefined; at = pending.pop()) {
    for (let p = 0; p < scene.pieceFlags.length; p++) {
      const next = scene.pieceTo[p];
      if (scene.pieceFrom[p] !== at || seen.has(next)) continue;
      if (next === to) return true;
      seen.add(next);
      if (next < 0) pending.push(next);
    }
  }
  return false;
}

/** The item that stands for a node: itself, or the outermost closed scope around it. */
function shownAs(model: GraphModel, scene: Scene, node: number): number {
  const places = placesOf(scene);
  let item = node;
  for (let s = model.scopeOf[node]; s > 0; s = model.scopes[s].parent) if (places.get(model.n + s)! >= scene.frameCount) item = model.n + s;
  return item;
}

for (const [name, nodes] of [["classifier", classifier()], ["transformer", transformer(80)], ["tangle", tangle(60, 5)]] as const) {
  test(`${name}: boxes stand apart, inside their frames, and every edge is drawn`, () => {
    const model = build([...nodes]);
    const all = scopesOf(model);
    for (const open of [[], all.slice(0, 1), all]) {
      const scene = new LayoutEngine(model).layout(open);
      assert(!boxesOverlap(scene), "boxes overlap");
      const places = placesOf(scene);
      for (const [item, k] of places) {
        const parent = item < model.n ? model.scopeOf[item] : model.scopes[item - model.n].parent;
        if (parent === 0) continue;
        const [inner, outer] = [rect(scene, k), rect(scene, places.get(model.n + parent)!)];
        assert(inner[0] >= outer[0] && inner[0] + inner[2] <= outer[0] + outer[2] + 0.01, "leaves its frame sideways");
        assert(inner[1] >= outer[1] && inner[1] + inner[3] <= outer[1] + outer[3] + 0.01, "leaves its frame");
      }
      for (let e = 0; e < model.edgeTarget.length; e++) {
        const from = shownAs(model, scene, model.nodeOf[model.edgeTensor[e]]);
        const to = shownAs(model, scene, model.edgeTarget[e]);
        assert(from === to || reaches(scene, from, to), `no line from ${model.itemName(from)} to ${model.itemName(to)}`);
      }
    }
  });
}

test("the same graph is drawn the same, whatever was open before", () => {
  const model = build(transformer(80));
  const engine = new LayoutEngine(model);
  const all = scopesOf(model);
  const fresh = JSON.stringify(new LayoutEngine(model).layout(all));
  engine.layout([]);
  engine.layout(all.slice(0, 2));
  assert.equal(JSON.stringify(engine.layout(all)), fresh);
});

test("opening a scope keeps the order of everything else", () => {
  const model = build(transformer(120));
  const engine = new LayoutEngine(model, ONE_COLUMN);
  const before = engine.layout([1]);
  const after = engine.layout([1, 2]);
  const known = placesOf(after);
  const shared = [...placesOf(before).keys()].filter((item) => known.has(item) && item !== model.n + 2);
  const center = (scene: Scene, item: number, axis: 0 | 1): number => {
    const r = rect(scene, placesOf(scene).get(item)!);
    return r[axis] + r[axis + 2] / 2;
  };
  for (const a of shared) {
    for (const b of shared) {
      for (const axis of [0, 1] as const) {
        const gap = center(before, a, axis) - center(before, b, axis);
        if (Math.abs(gap) < 40) continue; // an alignment may shift a little, an order may not turn round
        assert(Math.sign(gap) === Math.sign(center(after, a, axis) - center(after, b, axis)) || axis === 0, `${a} and ${b} changed places`);
      }
    }
  }
});

test("blocks of the same structure are drawn alike", () => {
  const model = build(transformer(80));
  const scene = new LayoutEngine(model).layout(scopesOf(model));
  const places = placesOf(scene);
  const inside = (block: string): number[][] => {
    const [ox, oy] = rect(scene, places.get(model.n + model.scope(block))!);
    return ["norm", "wq", "scores", "out"].map((leaf) => {
      const [x, y] = rect(scene, places.get(model.node(`${block}/${leaf}`))!);
      return [Math.round(x - ox), Math.round(y - oy)];
    });
  };
  assert.deepEqual(inside("layer1/attention"), inside("layer2/attention"));
});

test("scopes that need each other are drawn with lines that run back", () => {
  const model = build([
    { name: "x", kind: "placeholder" },
    { name: "a/first", inputs: ["x"] },
    { name: "b/middle", inputs: ["a/first"] },
    { name: "a/last", inputs: ["b/middle"] },
  ]);
  const closed = new LayoutEngine(model).layout([]);
  assert([...closed.pieceFlags].some((flag) => flag & PieceFlag.Feedback), "the cycle is not marked");
  const open = new LayoutEngine(model).layout(scopesOf(model));
  assert(reaches(open, model.node("b/middle"), model.node("a/last")));
});

test("the main line of a network runs straight down", () => {
  const model = build(classifier());
  const scene = new LayoutEngine(model).layout(scopesOf(model));
  const places = placesOf(scene);
  const middle = (name: string): number => {
    const r = rect(scene, places.get(model.node(name))!);
    return Math.round(r[0] + r[2] / 2);
  };
  const line = ["x", "hidden/matmul", "hidden/add", "hidden/relu", "matmul", "add"].map(middle);
  assert.deepEqual(line, line.map(() => line[0]));
});

test("arguments arrive in their order", () => {
  const model = build([
    { name: "p", kind: "placeholder" },
    { name: "q", kind: "placeholder" },
    { name: "difference", inputs: ["q", "p"] },
  ]);
  const scene = new LayoutEngine(model).layout([]);
  const arrival = (from: string): number => {
    for (let p = 0; p < scene.pieceFrom.length; p++) if (scene.pieceFrom[p] === model.node(from)) return scene.pieces[PIECE * p + 3];
    return NaN;
  };
  assert(arrival("q") < arrival("p"));
  const left = (name: string): number => rect(scene, placesOf(scene).get(model.node(name))!)[0];
  assert(left("q") < left("p"), "the first argument stands on the left");
});

test("lines keep their order where they enter a scope", () => {
  const inside = ["p", "q", "r"].flatMap((source) => [{ name: `s/${source}_exp`, inputs: [source] }]);
  const model = build([..."rqp"].map((name): Plain => ({ name, kind: "placeholder" })).concat(inside.reverse()));
  const scene = new LayoutEngine(model).layout(scopesOf(model));
  const left = (name: string): number => rect(scene, placesOf(scene).get(model.node(name))!)[0];
  const outside = ["p", "q", "r"].sort((a, b) => left(a) - left(b));
  assert.deepEqual(["p", "q", "r"].sort((a, b) => left(`s/${a}_exp`) - left(`s/${b}_exp`)), outside);
});

test("a selected node lights its own lines only", () => {
  const model = build(classifier());
  const scene = new LayoutEngine(model).layout(scopesOf(model));
  const lit = [...linesOf(scene, model.node("hidden/add"))];
  const ends = new Set(lit.flatMap((p) => [scene.pieceFrom[p], scene.pieceTo[p]]).filter((joint) => joint >= 0));
  assert.deepEqual([...ends].sort((a, b) => a - b), ["hidden/b", "hidden/matmul", "hidden/add", "hidden/relu"].map((name) => model.node(name)));
});

test("a click finds the box under it, then the frame around it", () => {
  const model = build(classifier());
  const scene = new LayoutEngine(model).layout(scopesOf(model));
  const places = placesOf(scene);
  const [x, y, w, h] = rect(scene, places.get(model.node("hidden/relu"))!);
  assert.equal(scene.items[hit(scene, x + w / 2, y + h / 2)], model.node("hidden/relu"));
  assert.equal(scene.items[hit(scene, x + w / 2, y + h + 4)], model.n + model.scope("hidden"));
  assert.equal(hit(scene, -100, -100), -1);
});

test("empty, single and very long graphs are drawn", () => {
  assert.equal(new LayoutEngine(build([])).layout([]).items.length, 0);
  assert.equal(new LayoutEngine(build([{ name: "x" }])).layout([]).items.length, 1);
  const long = Array.from({ length: 30_000 }, (_, i) => ({ name: `n${i}`, inputs: i ? [`n${i - 1}`] : [] }));
  assert.equal(new LayoutEngine(build(long)).layout([]).items.length, 30_000);
  const deep = build(Array.from({ length: 600 }, (_, k) => ({ name: `${"s/".repeat(k + 1)}x` })));
  assert.equal(new LayoutEngine(deep).layout(scopesOf(deep)).frameCount, 600);
});

test("one source with thousands of consumers keeps its lines few", () => {
  const nodes: Plain[] = [{ name: "mask", kind: "placeholder" }];
  for (let i = 0; i < 3000; i++) nodes.push({ name: `n${i}`, inputs: i ? [`n${i - 1}`, "mask"] : ["mask"] });
  const scene = new LayoutEngine(build(nodes)).layout([]);
  assert(scene.pieceFlags.length < 4 * 3000, `${scene.pieceFlags.length} pieces for 6,000 edges`);
});

test("a large graph starts as a readable overview", () => {
  const model = build(transformer(2000));
  const open = openAtFirst(model, 40);
  const scene = new LayoutEngine(model).layout(open);
  assert(scene.items.length - scene.frameCount <= Math.max(40, model.children(0).length));
  assert.deepEqual(openAtFirst(build(classifier())).length, 1);
});

test("names are looked up as they are, whatever they contain", () => {
  const odd = ["<img src=x onerror=alert(1)>", "a//b", "/lead", "tail/", "Ünïcode/节点", "__proto__", "constructor"];
  const model = build(odd.map((name) => ({ name })));
  odd.forEach((name, i) => assert.equal(model.itemOf(name), i));
  assert.equal(model.itemOf("nothing"), -1);
  assert.equal(new LayoutEngine(model).layout(scopesOf(model)).items.filter((item) => item < model.n).length, odd.length);
});
