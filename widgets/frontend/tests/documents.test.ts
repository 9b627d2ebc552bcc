// What documents are made of, without a page: questions to the server, and the code that reads a file.
import { test } from "node:test";
import assert from "node:assert/strict";
import { from, readingCode } from "../src/lab/documents/code";
import { DrawingModel } from "../src/lab/viewer/drawing_model";
import { Latest } from "../src/lab/viewer/latest";
import type { About } from "../src/lab/viewer/page";
import { Refused, type Drawn, type Query, type TensorTold } from "../src/lab/viewer/served";
import { TensorModel } from "../src/lab/viewer/tensor_model";

const stamped = { path: "m.gw", stamp: "1" };
const soon = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 5));

/** Answers by what is asked, and notes each question. */
function about(answer: (what: string, query: Query) => unknown): { about: About; asked: [string, Query][] } {
  const asked: [string, Query][] = [];
  const served = {
    get: async <T>(what: string, query: Query): Promise<T> => {
      asked.push([what, query]);
      const told = answer(what, query);
      if (told instanceof Error) throw told;
      return told as T;
    },
  };
  return { about: { served, path: "m.gw", words: (text) => text }, asked };
}

const picture = (index: string): TensorTold => ({
  ...stamped, name: "w", bytes: 8, every: 1, shape: [1, 2], state: { tensor_index: index, tensor_plane: [0, 1], tensor_part: "real", tensor_scope: "tensor", tensor_exact: false },
  messages: [{ content: { kind: "tensor.picture", index }, buffers: [{ $bytes: btoa("\u0001\u0002") }] }],
});

function heard(model: TensorModel): { kind: string; id?: number }[] {
  const messages: { kind: string }[] = [];
  model.on("msg:custom", (content: { kind: string }) => void messages.push(content));
  return messages;
}

test("a tensor shows its first picture, and reads another slice when it is asked for", async () => {
  const { about: given, asked } = about((_, { index }) => picture(String(index)));
  const model = new TensorModel(given, "w", picture("[:, :]"));
  const messages = heard(model);
  model.send({ kind: "tensor.sync" });
  await soon();
  assert.deepEqual(messages.map(({ kind }) => kind), ["tensor.picture"]);
  assert.equal(asked.length, 0);
  model.send({ kind: "tensor.index", id: 7, text: "[0]" });
  await soon();
  assert.deepEqual(asked, [["tensor", { path: "m.gw", name: "w", index: "[0]", plane: "0,1", part: "real", scope: "tensor", exact: "0" }]]);
  assert.deepEqual(messages.slice(1).map(({ kind, id }) => [kind, id]), [["heard", 7], ["tensor.fits", undefined], ["tensor.picture", undefined], ["done", 7]]);
  assert.equal(model.get("tensor_index"), "[0]");
});

test("what changes the values of a picture is asked for anew, how it is looked at is not", async () => {
  const { about: given, asked } = about((_, { index }) => picture(String(index)));
  const model = new TensorModel(given, "w", picture("[:, :]"));
  model.set("tensor_colors", "gray");
  await soon();
  assert.equal(asked.length, 0);
  model.set("tensor_plane", [1, 0]);
  model.set("tensor_exact", true);
  await soon();
  assert.deepEqual(asked.map(([, { plane, exact }]) => [plane, exact]), [["1,0", "0"], ["1,0", "1"]]);
});

test("a slice that does not fit is a problem of the slice; all else is a message", async () => {
  let error = new Refused("index 99 is out of bounds", 400, "w", [], "0 to 7");
  const model = new TensorModel(about(() => error).about, "w", picture("[:, :]"));
  const messages = heard(model);
  model.send({ kind: "tensor.index", id: 1, text: "[99]" });
  await soon();
  assert.deepEqual(messages[1], { kind: "tensor.problem", text: "index 99 is out of bounds: 0 to 7", at: 0, length: 4 });
  assert.equal(model.get("tensor_index"), "[:, :]");
  error = new Refused("the file changed while it was read", 409);
  model.send({ kind: "tensor.index", id: 2, text: "[1]" });
  await soon();
  assert.equal(model.get("message"), "the file changed while it was read");
});

test("a closer look and a value are asked for one after the other, the latest of each; what is of a slice before is left", async () => {
  const free: (() => void)[] = [];
  const asked: [string, Query][] = [];
  const served = {
    get: <T>(what: string, query: Query): Promise<T> => {
      asked.push([what, query]);
      if (what === "tensor") return Promise.resolve(picture("[1]") as T);
      return new Promise((done) => free.push(() => done((what === "window" ? { part: { window: query.window }, buffers: [] } : { where: "[0]", text: query.at }) as T)));
    },
  };
  const model = new TensorModel({ served, path: "m.gw", words: (text) => text }, "w", picture("[0]"));
  const messages = heard(model);
  for (const at of [1, 2, 3]) model.send({ kind: "tensor.value", view: "v", at: [0, at, at + 1, 0, 1] });
  model.send({ kind: "tensor.window", view: "v", serial: 4, window: [0, 1, 0, 1, 0, 8, 0, 8] });
  await soon();
  assert.deepEqual(asked.map(([what, { index, at, window, plane }]) => [what, index, at ?? window, plane]), [["element", "[0]", "0,1,2,0,1", "0,1"], ["window", "[0]", "0,1,0,1,0,8,0,8", "0,1"]]);
  for (const done of free.splice(0)) done();
  await soon();
  assert.deepEqual(messages, [
    { kind: "tensor.value", view: "v", at: [0, 1, 2, 0, 1], where: "[0]", text: "0,1,2,0,1" },
    { kind: "tensor.window", view: "v", serial: 4, part: { window: "0,1,0,1,0,8,0,8" } },
  ]);
  assert.equal(asked[2][1].at, "0,3,4,0,1");
  model.send({ kind: "tensor.index", id: 1, text: "[1]" });
  await soon();
  const before = messages.length;
  for (const done of free.splice(0)) done();
  await soon();
  assert.equal(messages.length, before, "the value was of the slice before");
});

test("the values of what is selected are read while its sheet is open, if they stand in the file", async () => {
  const kind = { $bytes: btoa("\u0000\u0002\u0003") };
  const drawn: Drawn = { ...stamped, nodes: 3, notes: [], state: { inspector: false, selected: "", graph_spec: { names: ["relu", "w", "c"], kind } }, messages: [] };
  const { about: given, asked } = about((_, { node }) => ({ ...stamped, messages: [{ content: { kind: "inspector.values", name: node, tensors: [] }, buffers: [] }] }));
  const model = new DrawingModel(given, drawn, new AbortController().signal);
  const names: unknown[] = [];
  model.on("msg:custom", ({ name }: { name: string }) => void names.push(name));
  model.set("selected", "w");
  await soon();
  assert.equal(asked.length, 0);
  model.set("inspector", true);
  for (const node of ["relu", "layer/", "c"]) model.set("selected", node);
  await soon();
  assert.deepEqual(names, ["w", "c"]);
});

test("what is said of values that cannot be read goes when others are", async () => {
  const drawn: Drawn = { ...stamped, nodes: 2, notes: [], state: { inspector: true, graph_spec: { names: ["v", "w"], kind: { $bytes: btoa("\u0002\u0002") } } }, messages: [] };
  const { about: given } = about((_, { node }) => (node === "v" ? new Refused("the file is damaged", 422) : { ...stamped, messages: [] }));
  const model = new DrawingModel(given, drawn, new AbortController().signal);
  for (const [node, message] of [["v", "the file is damaged"], ["w", ""]]) {
    model.set("selected", node);
    await soon();
    assert.equal(model.get("message"), message);
  }
});

test("what a node encloses is read once, when it is opened", async () => {
  const drawn: Drawn = { ...stamped, nodes: 2, notes: [], state: { insides: { "known": {} }, expanded: [], graph_spec: { names: ["known", "scan"] } }, messages: [] };
  const { about: given, asked } = about(() => ({ ...stamped, insides: { scan: { entries: { $bytes: btoa("ab") } } } }));
  const model = new DrawingModel(given, drawn, new AbortController().signal);
  model.set("expanded", ["known::", "layer/"]);
  model.set("expanded", ["known::", "scan::"]);
  model.set("expanded", ["scan::"]);
  await soon();
  assert.deepEqual(asked, [["inside", { path: "m.gw", node: "scan::" }]]);
  const insides = model.get("insides") as Record<string, { entries: DataView }>;
  assert.deepEqual(Object.keys(insides), ["known", "scan"]);
  assert.equal(insides.scan.entries.getUint8(1), "b".charCodeAt(0));
});

test("nodes that differ are coloured by kind, others not at all", () => {
  const drawn: Drawn = { ...stamped, nodes: 3, notes: [], state: { graph_spec: { names: ["a", "b", "c"] } }, messages: [] };
  const model = new DrawingModel(about(() => undefined).about, drawn, new AbortController().signal);
  model.light("difference", new Map([["changed", ["c"]], ["only here", ["a"]]]));
  const { values, kinds } = model.get("overlay") as { values: DataView; kinds: string[] };
  assert.deepEqual([...new Float64Array(values.buffer)], [1, NaN, 0]);
  assert.deepEqual(kinds, ["changed", "only here"]);
  assert.equal(model.get("color_by"), "overlay");
});

test("a cell reads a file as its format says, and quotes whatever its path is", () => {
  const format = (use: string, graph = true) => ({ name: "f", title: "a file", suffixes: [], graph, use });
  const load = readingCode('a"b.onnx', format("gw.onnx.load(path)"));
  assert.match(load, /^import gradwright as gw\n.*\n\npath = "a\\"b\.onnx"\ngraph = gw\.onnx\.load\(path\)\nGraphView\(graph\)$/);
  assert.match(readingCode("c.gw", format("gw.resume(trainer, folder, path), gw.load(path), gw.inspect(path)")), /\ngraph = gw\.load\(path\)\n/);
  assert.match(readingCode("run", format("gw.train.RunFolder(path), gw.resume(trainer, path)")), /\ngw\.train\.RunFolder\(path\)$/);
  const arrays = readingCode("x.safetensors", format("it holds arrays and no graph", false));
  assert.match(arrays, /\n# it holds arrays and no graph\ngw\.inspect\(path\)$/);
  assert.match(readingCode("x", undefined), /gw\.inspect\(path\)$/);
});

test("a notebook names a file from where it stands", () => {
  assert.equal(from("", "m.gw"), "m.gw");
  assert.equal(from("a/b", "a/m.gw"), "../m.gw");
  assert.equal(from("a", "a/c/m.gw"), "c/m.gw");
});

test("of questions that come while one is asked the last is next, also after one that failed", async () => {
  const latest = new Latest();
  const asked: string[] = [];
  let fail = (_: Error): void => undefined;
  latest.ask(() => new Promise((_, reject) => (fail = reject)));
  latest.ask(async () => void asked.push("passed over"));
  latest.ask(async () => void asked.push("next"));
  fail(new Error("the server is gone"));
  await new Promise((done) => setTimeout(done));
  latest.ask(async () => void asked.push("later"));
  await new Promise((done) => setTimeout(done));
  assert.deepEqual(asked, ["next", "later"]);
});
