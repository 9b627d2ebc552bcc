// Adapters in the drawing: their scopes have their name, their colour and a switch.
import { test } from "node:test";
import assert from "node:assert/strict";
import { describe, itemSize, SWITCH } from "../src/panels/graph/model/describe";
import { Drawing } from "../src/panels/graph/picture/drawing";
import { LayoutEngine, ONE_COLUMN } from "../src/panels/graph/layout/engine";
import { GraphModel } from "../src/panels/graph/model/model";
import { specOf, type Plain } from "./support/graphs";

const NODES: Plain[] = [
  { name: "x", op: "placeholder", kind: "placeholder" },
  { name: "w", op: "variable", kind: "variable" },
  { name: "w/base", op: "matmul", inputs: ["x", "w"] },
  { name: "w/default/lora_A", op: "variable", kind: "variable" },
  { name: "w/default/matmul", op: "matmul", inputs: ["x", "w/default/lora_A"] },
  { name: "w/default/add", op: "add", inputs: ["w/base", "w/default/matmul"] },
];

const model = (on: boolean): GraphModel => new GraphModel({ ...specOf(NODES), adapters: [{ name: "default", method: "LoRA", on, scopes: ["w/default", "gone/default"] }] });

test("a scope of an adapter says what it is, and no other item does", () => {
  const graph = model(true);
  const scope = graph.n + graph.scope("w/default");
  const face = describe(graph, scope);
  assert.deepEqual([face.title, face.note, face.category], ["LoRA", "default · 3 nodes", "adapter"]);
  assert.equal(describe(model(false), scope).note, "default · off");
  const others = [...NODES.keys(), graph.n + graph.scope("w")].filter((item) => describe(graph, item).adapter);
  assert.deepEqual(others, []);
  assert.equal(itemSize(face).width - itemSize({ ...face, adapter: undefined }).width, SWITCH);
});

test("its switch is at the right, closed and open, and its opener at the left", () => {
  const graph = model(true);
  const scope = graph.n + graph.scope("w/default");
  for (const open of [["w"], ["w", "w/default"]]) {
    const drawing = new Drawing(graph, new LayoutEngine(graph, ONE_COLUMN).layout(open.map((path) => graph.scope(path))));
    const [x, y, w, h] = drawing.rect(scope)!;
    const middle = open.length > 1 ? y + 12 : y + h / 2;
    assert.equal(drawing.at(x + w - 20, middle, 2).adapter?.name, "default");
    assert.deepEqual([drawing.at(x + 14, middle, 2).adapter, drawing.at(x + 14, middle, 2).toggle], [undefined, true]);
    assert.equal(drawing.at(x + w / 2, middle, 2).adapter, undefined);
  }
});
