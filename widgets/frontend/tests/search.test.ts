// The language of the search: terms, shapes, attributes, paths, and what is said of what cannot be read.
import { test } from "node:test";
import assert from "node:assert/strict";
import { find } from "../src/panels/graph/model/finder";
import { GraphModel } from "../src/panels/graph/model/model";
import { attributesOf, compares, EXAMPLES, fitsShape, parse } from "../src/panels/graph/model/query";
import { dtypeOf, shortShape, sizesOf } from "../src/panels/graph/model/sizes";
import { random, specOf, type Plain } from "./support/graphs";

const CONV = "conv2d(stride=(2, 2), padding='same', index=(('slice', None), 0), name=\"a, b\")";

/** Two convolutional layers and a head, as `calls` with attributes. */
function model(): GraphModel {
  const nodes: Plain[] = [
    { name: "x", op: "placeholder", kind: "placeholder", spec: "f32[B, 3, H, W]" },
    { name: "body/w", op: "variable", kind: "variable", spec: "bf16[8, 3, 3, 3]" },
    { name: "body/conv_1", op: CONV, inputs: ["x", "body/w"], spec: "f32[B, 8, H - 2, W - 2]" },
    { name: "body/relu", op: "relu()", inputs: ["body/conv_1"], spec: "f32[B, 8, H - 2, W - 2]" },
    { name: "body/conv_2", op: "conv2d(stride=1, padding='valid')", inputs: ["body/relu", "body/w"], spec: "f32[B, 8, max(0, H - 4), W - 4]" },
    { name: "body/norm", op: "batch_norm(eps=1e-05)", inputs: ["body/conv_2"], spec: "f32[B, 8, max(0, H - 4), W - 4]" },
    { name: "body/relu_1", op: "relu()", inputs: ["body/norm"], spec: "f32[B, 8, max(0, H - 4), W - 4]" },
    { name: "pooled", op: "mean(axis=(2, 3))", inputs: ["body/relu_1"], spec: "f32[B, 8]" },
    { name: "top", op: "matmul()", inputs: ["pooled", "v"], spec: "f16[B, 64]" },
    { name: "v", op: "variable", kind: "variable", spec: "f16[8, 64]" },
    { name: "add", op: "add()", inputs: ["top"], spec: "f16[B, 64]" },
    { name: "scores", op: "gelu()", inputs: ["add"], spec: "f16[B, 64]" },
    { name: "loss", op: "mean(axis=None)", inputs: ["scores"], spec: "f32[]" },
  ];
  const spec = specOf(nodes);
  spec.ops = spec.calls.map((call) => call.replace(/\(.*/s, ""));
  return new GraphModel(spec);
}

const names = (query: string): string[] => {
  const graph = model();
  const { items, problem } = find(graph, query);
  assert.equal(problem, "", query);
  return items.map((item) => graph.itemName(item));
};

test("each kind of term finds what it says", () => {
  assert.deepEqual(names("op:conv*"), ["body/conv_1", "body/conv_2"]);
  assert.deepEqual(names("layer:bod"), ["body/"]);
  assert.deepEqual(names("dtype:bf16"), ["body/w"]);
  assert.deepEqual(names("dtype: float16"), ["top", "v", "add", "scores"]);
  assert.deepEqual(names("dtype:*16 op:variable"), ["body/w", "v"], "all terms fit");
  assert.deepEqual(names("[B, *, 64]"), []);
  assert.deepEqual(names("[B, 64]"), ["top", "add", "scores"]);
  assert.deepEqual(names("[ B , ... , W-2 ]"), ["body/conv_1", "body/relu"], "sizes as they are written, whatever the spaces");
  assert.deepEqual(names("[B, 8, max(0, H - 4), *]"), ["body/conv_2", "body/norm", "body/relu_1"]);
  assert.deepEqual(names("[]"), ["loss"]);
  assert.deepEqual(names("stride=2"), ["body/conv_1"], "the same along all axes");
  assert.deepEqual(names("stride = (2, 2)"), ["body/conv_1"]);
  assert.deepEqual(names("stride!=2 op:conv2d"), ["body/conv_2"]);
  assert.deepEqual(names("eps<1e-4"), ["body/norm"]);
  assert.deepEqual(names("padding='valid'"), ["body/conv_2"]);
  assert.deepEqual(names("padding=*a*"), ["body/conv_1", "body/conv_2"]);
  assert.deepEqual(names("axis=none"), ["loss"]);
  assert.deepEqual(names("rel*1"), ["body/relu_1"]);
  assert.deepEqual(names("/_\\d$/ op:relu"), ["body/relu_1"]);
});

test("a path is found by its ops, with all nodes on it", () => {
  const graph = model();
  const path = (query: string): string[][] => find(graph, query).paths!.map((nodes) => nodes.map((node) => graph.itemName(node)));
  assert.deepEqual(path("matmul -> add -> gelu"), [["top", "add", "scores"]]);
  assert.deepEqual(path("conv* -> * -> relu"), [["body/conv_2", "body/norm", "body/relu_1"]]);
  assert.deepEqual(path("conv2d stride=2→relu"), [["body/conv_1", "body/relu"]]);
  assert.deepEqual(path("variable -> [B, 64] -> add"), [["v", "top", "add"]]);
  assert.deepEqual(path("v -> matmul"), [["v", "top"]], "a node's own name counts, too");
  assert.deepEqual(path("x -> relu"), []);
  const { items, lit } = find(graph, "* -> relu");
  assert.deepEqual(items.map((item) => graph.itemName(item)), ["body/conv_1", "body/norm"]);
  assert.deepEqual(new Set(lit!.map((item) => graph.itemName(item))), new Set(["body/conv_1", "body/relu", "body/norm", "body/relu_1"]));
});

test("paths agree with a walk over all chains", () => {
  const draw = random(5);
  const ops = ["a", "b", "c"];
  const nodes: Plain[] = Array.from({ length: 60 }, (_, i) => ({
    name: `n${i}`, op: ops[Math.floor(3 * draw())], inputs: i ? [...new Set([Math.floor(i * draw()), Math.floor(i * draw())])].map((k) => `n${k}`) : [],
  }));
  const graph = new GraphModel(specOf(nodes));
  const readers = nodes.map(({ name }) => nodes.flatMap((node, k) => (node.inputs!.includes(name) ? [k] : [])));
  for (const query of ["a -> b", "a -> * -> c", "b -> b -> a -> c", "* -> * -> * -> a"]) {
    const steps = query.split(" -> ");
    const chains = (node: number, step: number): number[][] =>
      steps[step] !== "*" && nodes[node].op !== steps[step] ? []
      : step === steps.length - 1 ? [[node]]
      : readers[node].flatMap((next) => chains(next, step + 1).map((rest) => [node, ...rest]));
    const all = nodes.flatMap((_, node) => chains(node, 0));
    const { items, lit, paths } = find(graph, query);
    assert.deepEqual(items, [...new Set(all.map(([first]) => first))].sort((a, b) => a - b), query);
    assert.deepEqual([...lit!].sort((a, b) => a - b), [...new Set(all.flat())].sort((a, b) => a - b), query);
    for (const path of paths!) assert(all.some((chain) => chain.join() === path.join()), query);
  }
});

test("what cannot be read is said, and nothing is found", () => {
  const graph = model();
  const told: [string, RegExp][] = [
    ["/(/", /not a regular/], ["/half", /slash/], ["[B, 64", /\]/], ["-> relu", /begins at a node/], ["conv ->", /leads to a node/], ["op:", /op: what/],
    ["strides=2", /no node has strides; try stride/], ["nothing=2", /there are/], ["stride=", /what/],
  ];
  for (const [query, words] of told) {
    const { items, problem } = find(graph, query);
    assert(words.test(problem), `${query}: ${problem}`);
    assert.deepEqual(items, [], query);
  }
  for (const [text] of EXAMPLES) assert(parse(text).length, text);
  assert.throws(() => parse("a -> -> b"), /begins at a node/);
});

test("attributes are read as they are written, and compared with what is typed", () => {
  assert.deepEqual([...attributesOf(CONV)], [["stride", "(2, 2)"], ["padding", "'same'"], ["index", "(('slice', None), 0)"], ["name", '"a, b"']]);
  assert.deepEqual([...attributesOf("relu()")], []);
  assert.deepEqual([compares("(1, 2)", "=", "1"), compares("(2, 2)", ">=", "2"), compares("()", "=", "1"), compares("0.50", "=", ".5"), compares("'same'", "=", "SAME")], [false, true, false, true, true]);
  assert(fitsShape(["...", "8", "..."], ["2", "8", "8"]) && !fitsShape(["8", "..."], ["2", "8"]) && fitsShape(["..."], []));
});

test("sizes read as they were written", () => {
  assert.deepEqual(["f32[B, H - 1, 64]", "f32[max(0, H - 2), 2*B]", "f32[]", "bool", "i64[(p|q), 3]"].map(shortShape), ["B×H-1×64", "max(0,H-2)×2*B", "f32", "bool", "(p|q)×3"]);
  assert.deepEqual(["f32[((H - 3)//2) + 1]", "f32[(((H - 3)//2) - 2)//2 + 1]", "f32[2*((H - 3)//2)]", "f32[(H + 1)//2]"].map(shortShape), ["(H-3)//2+1", "((H-3)//2-2)//2+1", "2*((H-3)//2)", "(H+1)//2"]);
  assert.deepEqual(sizesOf("f32[]"), []);
  assert.equal(dtypeOf("f32[B, 2]"), "f32");
});
