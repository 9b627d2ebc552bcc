// Gradients beside their nodes: to the right, at the same height, from the bottom up - and nothing else moves.
import { test } from "node:test";
import assert from "node:assert/strict";
import { describe } from "../src/panels/graph/model/describe";
import { LayoutEngine, ONE_COLUMN } from "../src/panels/graph/layout/engine";
import { openAtFirst } from "../src/panels/graph/layout/first";
import { GraphModel } from "../src/panels/graph/model/model";
import { PIECE, PieceFlag, placesOf, type Scene } from "../src/panels/graph/layout/scene";
import { classifier, differentiated, ladder, specOf, tangle, transformer, type Plain } from "./support/graphs";

const build = (nodes: Plain[]): GraphModel => new GraphModel(specOf(nodes));
const forwardScopes = (model: GraphModel): number[] => model.scopes.map((_, s) => s).filter((s) => s > 0 && model.scopes[s].of < 0);
const allScopes = (model: GraphModel): number[] => model.scopes.map((_, s) => s).slice(1);

/** x, y, width and height of every drawn item, by name. */
function rects(model: GraphModel, scene: Scene): Map<string, number[]> {
  return new Map([...placesOf(scene)].map(([item, k]) => [model.itemName(item), [...scene.rects.subarray(4 * k, 4 * k + 4)]]));
}

/** Every drawn pair: the rectangle of an item and that of its gradient. */
function pairs(model: GraphModel, scene: Scene): { item: number; twin: number; of: number[]; gradient: number[] }[] {
  const at = rects(model, scene);
  return [...scene.items].filter((item) => model.isTwin(item)).map((twin) => {
    const item = model.pairOf(twin);
    return { item, twin, of: at.get(model.itemName(item))!, gradient: at.get(model.itemName(twin))! };
  });
}

function overlaps(scene: Scene): boolean {
  const boxes = [...scene.items.keys()].filter((k) => k >= scene.frameCount).map((k) => scene.rects.subarray(4 * k, 4 * k + 4));
  return boxes.some((p, a) => boxes.slice(a + 1).some((q) => p[0] < q[0] + q[2] && q[0] < p[0] + p[2] && p[1] < q[1] + q[3] && q[1] < p[1] + p[3]));
}

const corpus: [string, Plain[]][] = [
  ["classifier", classifier()],
  ["transformer", transformer(120)],
  ["flat transformer", transformer(60, false)],
  ["ladder", ladder(5)],
  ["tangle", tangle(80, 3)],
];

for (const [name, nodes] of corpus) {
  test(`${name}: every gradient stands to the right of its node, at its height`, () => {
    const model = build(differentiated(nodes));
    for (const open of [[], forwardScopes(model)]) {
      const scene = new LayoutEngine(model).layout(open);
      const found = pairs(model, scene);
      assert(found.length > 3);
      for (const { item, of, gradient } of found) {
        assert(gradient[0] > of[0] + of[2], `${model.itemName(item)} is not left of its gradient`);
        assert(Math.abs(gradient[1] + gradient[3] / 2 - of[1] - of[3] / 2) < 0.01, `${model.itemName(item)} and its gradient are not level`);
      }
      assert(!overlaps(scene), "boxes overlap");
      const lane = Math.min(...found.filter(({ twin }) => model.scopes[twin - model.n].parent === 0).map(({ gradient }) => gradient[0]));
      for (const item of scene.items) {
        const inLane = item < model.n ? model.layer[item] > 0 : model.isTwin(item);
        const [x, , w] = rects(model, scene).get(model.itemName(item))!;
        assert(inLane ? x >= lane : x + w < lane, "forward nodes and gradients do not mix");
      }
    }
  });

  test(`${name}: forward nodes and lines stay where they are without gradients`, () => {
    const plain = build(nodes);
    const paired = build(differentiated(nodes));
    for (const open of [[], forwardScopes(plain).slice(0, 1), forwardScopes(plain)]) {
      const before = new LayoutEngine(plain).layout(open);
      const after = new LayoutEngine(paired).layout(open.map((s) => paired.scope(plain.scopes[s].path)));
      const at = rects(paired, after);
      for (const [item, rect] of rects(plain, before)) assert.deepEqual(at.get(item), rect, item);
      const forward = after.pieceFlags.reduce((sum, flags) => sum + Number(!(flags & (PieceFlag.Cotangent | PieceFlag.Pair | PieceFlag.Link))), 0);
      assert.equal(forward, before.pieceFlags.length);
      assert.equal(after.height, before.height);
    }
  });

  test(`${name}: gradients run upwards, and every pair is tied by one hairline`, () => {
    const model = build(differentiated(nodes));
    const scene = new LayoutEngine(model).layout(forwardScopes(model));
    let upwards = 0;
    const tied = new Map<number, number>();
    scene.pieceFlags.forEach((flags, p) => {
      const [, y0, , , , y3] = scene.pieces.subarray(PIECE * p, PIECE * p + PIECE);
      if (flags & PieceFlag.Pair) tied.set(scene.pieceTo[p], scene.pieceFrom[p]);
      else if (flags & PieceFlag.Cotangent) {
        assert(flags & PieceFlag.Up && (y3 <= y0 || flags & PieceFlag.Bus), "a gradient runs downwards, and not from column to column");
        upwards++;
      } else assert(!(flags & PieceFlag.Up));
    });
    assert(upwards > 0);
    assert.deepEqual([...tied].sort((a, b) => a[0] - b[0]), pairs(model, scene).map(({ twin, item }) => [twin, item]).sort((a, b) => a[0] - b[0]));
  });
}

test("gradients stand in the order of their nodes", () => {
  const model = build(differentiated(transformer(60)));
  const scene = new LayoutEngine(model).layout(forwardScopes(model));
  const found = pairs(model, scene);
  for (const a of found) {
    for (const b of found) {
      const sameRow = a.of[1] === b.of[1] && model.scopes[a.twin - model.n].parent === model.scopes[b.twin - model.n].parent;
      if (sameRow && a.of[0] < b.of[0]) assert(a.gradient[0] < b.gradient[0]);
    }
  }
});

test("every cotangent is drawn: the lane connects what the gradient graph connects", () => {
  const model = build(differentiated(classifier()));
  const scene = new LayoutEngine(model).layout(forwardScopes(model));
  const next = new Map<number, number[]>();
  scene.pieceFlags.forEach((flags, p) => {
    if (flags & PieceFlag.Cotangent) next.set(scene.pieceFrom[p], [...(next.get(scene.pieceFrom[p]) ?? []), scene.pieceTo[p]]);
  });
  const reaches = (from: number, to: number): boolean => {
    const pending = [from];
    for (let at = pending.pop(); at !== undefined; at = pending.pop()) {
      for (const joint of next.get(at) ?? []) {
        if (joint === to) return true;
        if (joint < 0) pending.push(joint);
      }
    }
    return false;
  };
  for (let e = 0; e < model.edgeTarget.length; e++) {
    const [a, b] = [model.nodeOf[model.edgeTensor[e]], model.edgeTarget[e]];
    if (model.layer[a] !== 1 || model.layer[b] !== 1) continue;
    const [from, to] = [model.n + model.scopeOf[a], model.n + model.scopeOf[b]];
    if (from !== to) assert(reaches(from, to), `no line from ${model.itemName(from)} to ${model.itemName(to)}`);
  }
});

test("the same gradients are drawn the same, whatever was open before", () => {
  const model = build(differentiated(transformer(80)));
  const fresh = JSON.stringify(new LayoutEngine(model).layout(allScopes(model)));
  const engine = new LayoutEngine(model);
  for (const open of [[], allScopes(model).slice(0, 9), forwardScopes(model)]) engine.layout(open);
  assert.equal(JSON.stringify(engine.layout(allScopes(model))), fresh);
});

test("a scope and its gradient open and close together", () => {
  const model = build(differentiated(classifier()));
  const hidden = model.scope("hidden");
  const twin = model.scope("grad/loss/hidden");
  assert.equal(model.pairOf(model.n + hidden), model.n + twin);
  for (const open of [[hidden], [twin], [hidden, twin]]) {
    const frames = [...new LayoutEngine(model).layout(open).items.subarray(0, 2)];
    assert.deepEqual(frames.sort((a, b) => a - b), [model.n + hidden, model.n + twin]);
  }
  const { items, frameCount } = new LayoutEngine(model).layout([]);
  assert.equal(frameCount, 0);
  assert(items.includes(model.n + twin), "the closed scope has a closed gradient");
});

test("an opened gradient shows its nodes, upwards, and makes its row as high as it needs", () => {
  const nodes = classifier();
  const model = build(differentiated(nodes, 40));
  const closed = new LayoutEngine(model, ONE_COLUMN).layout(forwardScopes(model));
  const scope = model.scope("grad/loss/hidden/relu");
  const scene = new LayoutEngine(model, ONE_COLUMN).layout([...forwardScopes(model), scope]);
  const at = rects(model, scene);
  const [x, y, w, h] = at.get("grad/loss/hidden/relu/")!;
  const relu = at.get("hidden/relu")!;
  assert(y === relu[1] && x > relu[0] + relu[2], "it begins at the height of its node");
  assert(!overlaps(scene));
  const chain = Array.from({ length: 40 }, (_, k) => at.get(`grad/loss/hidden/relu/step_0_${k}`)!);
  for (const [bx, by, bw, bh] of chain) assert(bx >= x && bx + bw <= x + w && by >= y && by + bh <= y + h, "a node leaves its frame");
  for (let k = 1; k < 40; k++) assert(chain[k][1] + chain[k][3] < chain[k - 1][1], "later nodes stand higher");
  // Below, all moves down by the same; above and sideways, nothing moves.
  const before = rects(model, closed);
  const shift = at.get("matmul")![1] - before.get("matmul")![1];
  assert(shift > 1000);
  for (const { name } of nodes) {
    assert.equal(at.get(name)![0], before.get(name)![0]);
    assert(Math.abs(at.get(name)![1] - before.get(name)![1]) < 0.01 || Math.abs(at.get(name)![1] - before.get(name)![1] - shift) < 0.01, name);
  }
});

test("a gradient of a gradient stands inside, beside the node it belongs to", () => {
  const first = differentiated(classifier());
  const model = build(differentiated(first, 2, "grad/second"));
  const inner = model.n + model.scope("grad/second/grad/loss/hidden/relu/step_0_1");
  assert(inner > model.n);
  const node = model.node("grad/loss/hidden/relu/step_0_1");
  assert.equal(model.pairOf(inner), node);
  assert.equal(model.scopes[inner - model.n].parent, model.scopeOf[node]);
  for (const open of [[], forwardScopes(model), allScopes(model)]) {
    const scene = new LayoutEngine(model).layout(open);
    assert(!overlaps(scene));
    for (const { of, gradient } of pairs(model, scene)) assert(gradient[0] > of[0] + of[2]);
    assert([...scene.rects, ...scene.pieces].every(Number.isFinite));
  }
  const at = rects(model, new LayoutEngine(model).layout(allScopes(model)));
  const [x, y, w, h] = at.get("grad/loss/hidden/relu/")!;
  const [bx, by, bw, bh] = at.get(model.itemName(inner))!;
  assert(bx >= x && bx + bw <= x + w && by >= y && by + bh <= y + h, "it leaves the gradient it belongs to");
});

test("one node with many gradient nodes keeps to one box", () => {
  const many: Plain[] = Array.from({ length: 300 }, (_, k) => ({ name: `grad/y/y/n${k}`, of: "y", inputs: [k ? `grad/y/y/n${k - 1}` : "y"] }));
  const model = build([{ name: "x", kind: "placeholder" }, { name: "y", inputs: ["x"], spec: "f32[B, 8]" }, ...many]);
  const scene = new LayoutEngine(model).layout([]);
  assert.equal(scene.items.length, 3);
  const face = describe(model, model.twinOf(model.node("y")));
  assert.deepEqual([face.title, face.note], ["∂ y", "300 ops · B×8"]);
});

test("updates keep their scope, to the right of the gradients, and move nothing", () => {
  const nodes = differentiated(classifier());
  const update: Plain[] = [
    { name: "optimizer/learning_rate", kind: "placeholder", of: null },
    { name: "optimizer/w2/step", of: null, inputs: ["grad/loss/matmul/step_1_1", "optimizer/learning_rate", "w2"] },
    { name: "clock", of: null },
  ];
  const [without, model] = [build(nodes), build([...nodes, ...update])];
  const before = rects(without, new LayoutEngine(without).layout([]));
  for (const open of [[], [model.scope("optimizer")], allScopes(model)]) {
    const scene = new LayoutEngine(model).layout(open);
    const at = rects(model, scene);
    if (!open.length) for (const [name, rect] of before) assert.deepEqual(at.get(name), rect, name);
    const right = Math.max(...pairs(model, scene).map(({ gradient }) => gradient[0] + gradient[2]));
    assert(at.get("clock")![0] > right && at.get("optimizer/")![0] > right);
    assert(!overlaps(scene));
  }
  const links = new LayoutEngine(model).layout([]);
  const joined = [...links.pieceFlags.keys()].filter((p) => links.pieceFlags[p] & PieceFlag.Link).map((p) => model.itemName(links.pieceFrom[p]));
  assert.deepEqual(joined.sort(), ["grad/loss/matmul/", "w2"]);
});

test("forward nodes that are built on gradients are drawn", () => {
  const nodes = differentiated(classifier());
  const model = build([...nodes, { name: "penalty", inputs: ["grad/loss/matmul/step_1_1"] }, { name: "total", inputs: ["penalty", "loss"] }]);
  const scene = new LayoutEngine(model).layout(forwardScopes(model));
  const link = scene.pieceFlags.findIndex((flags, p) => (flags & PieceFlag.Link) > 0 && scene.pieceTo[p] === model.node("penalty"));
  assert.equal(scene.pieceFrom[link], model.twinOf(model.node("matmul")));
});

test("what is named by code is found: gradients have the scopes of the kernel", () => {
  const model = build(differentiated(transformer(40)));
  const twin = model.itemOf("grad/loss/layer0/attention/scores/");
  assert.equal(model.pairOf(twin), model.node("layer0/attention/scores"));
  for (const item of model.scopes.keys()) if (item) assert.equal(model.itemOf(model.itemName(model.n + item)), model.n + item);
  const other = build(differentiated(classifier()).map((node) => ({ ...node, name: node.name.replace("grad/loss/hidden/relu", "grad/a/hidden/relu") }))
    .map((node) => ({ ...node, inputs: node.inputs?.map((name) => name.replace("grad/loss/hidden/relu", "grad/a/hidden/relu")) })));
  assert.equal(other.itemOf("grad/a/hidden/"), other.itemOf("grad/loss/hidden/"), "gradients of two losses share the twins of scopes");
});

test("the outline lists a gradient after its node", () => {
  const model = build(differentiated(classifier()));
  const names = model.children(0).map((item) => model.itemName(item));
  assert.equal(names[names.indexOf("hidden/") + 1], "grad/loss/hidden/");
  assert.equal(names[names.indexOf("matmul") + 1], "grad/loss/matmul/");
  const inside = model.children(model.scope("grad/loss/hidden")).map((item) => model.itemName(item));
  assert.deepEqual(inside, ["matmul", "add", "relu"].map((name) => `grad/loss/hidden/${name}/`));
});

test("a large graph with its gradients starts as the same overview", () => {
  const nodes = transformer(2000);
  const [plain, paired] = [build(nodes), build(differentiated(nodes))];
  assert(paired.n > 5000);
  const names = (model: GraphModel): string[] => openAtFirst(model).map((s) => model.scopes[s].path);
  assert.deepEqual(names(paired), names(plain));
  const scene = new LayoutEngine(paired).layout(openAtFirst(paired));
  const before = new LayoutEngine(plain).layout(openAtFirst(plain));
  assert(scene.items.length <= 2 * before.items.length);
  assert(!overlaps(scene));
});
