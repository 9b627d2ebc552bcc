// What the drawing shows beside the graph itself: search, paths, overlays, marks, links along edges, DOT.
import { test } from "node:test";
import assert from "node:assert/strict";
import { dotOf, quote } from "../src/panels/graph/dot";
import { Drawing } from "../src/panels/graph/picture/drawing";
import { LayoutEngine } from "../src/panels/graph/layout/engine";
import { find } from "../src/panels/graph/model/finder";
import { focusOf } from "../src/panels/graph/picture/focus";
import { drawnFor, marksOf, itemAround } from "../src/panels/graph/picture/marks";
import { GraphModel } from "../src/panels/graph/model/model";
import { Overlay, type OverlaySpec } from "../src/panels/graph/picture/overlay";
import { ramp, shadeAt, toOklab } from "../src/panels/graph/picture/palette";
import { luminance, type Rgb } from "../src/core/colors";
import { SvgPen } from "../src/panels/graph/picture/pen";
import { elements } from "../src/panels/graph/model/sizes";
import { between, inheritors, inputsOf, reach } from "../src/panels/graph/model/trace";
import { Viewport } from "../src/panels/graph/picture/viewport";
import { Walk, type Way } from "../src/panels/graph/model/walk";
import { classifier, specOf, tangle, transformer, type Plain } from "./support/graphs";

const modelOf = (nodes: Plain[]): GraphModel => new GraphModel(specOf(nodes));
const named = (model: GraphModel, items: Iterable<number>): string[] => [...items].map((item) => model.itemName(item));
const flagged = (model: GraphModel, flags: Uint8Array): string[] => model.spec.names.filter((_, i) => flags[i]);
const drawingOf = (model: GraphModel, open: string[]): Drawing =>
  new Drawing(model, new LayoutEngine(model).layout(open.map((path) => model.scope(path))));

test("a search ranks whole names, beginnings, parts, paths and ops", () => {
  const model = modelOf([
    { name: "x", kind: "placeholder" },
    { name: "add/inner", op: "mul", inputs: ["x"] },
    { name: "readd", op: "neg", inputs: ["x"] },
    { name: "add_1", op: "add", inputs: ["x"] },
    { name: "total", op: "add", inputs: ["x"] },
    { name: "deep/add", op: "add", inputs: ["x"] },
  ]);
  assert.deepEqual(named(model, find(model, "ADD").items), ["add/", "deep/add", "add_1", "readd", "add/inner", "total"]);
  assert.deepEqual(named(model, find(model, "op:add").items), ["add_1", "total", "deep/add"]);
  assert.deepEqual(named(model, find(model, "op: ad").items), ["add_1", "total", "deep/add"], "part of an op that none has whole");
  assert.deepEqual(named(model, find(model, "/^add.*\\d$/").items), ["add_1"]);
  assert.deepEqual(named(model, find(model, "/^ADD$/i").items), ["add/", "add_1", "total", "deep/add"]);
  assert.deepEqual(find(model, "  ").items, []);
  assert.deepEqual(find(model, "nothing like it").items, []);
  for (const broken of ["/(/", "/[a/", "/half"]) {
    const { items, problem } = find(model, broken);
    assert(problem && !items.length, broken);
  }
});

test("what leads to a node and what comes of it agree with a search by hand", () => {
  const model = modelOf(tangle(300, 7));
  const feeds = new Map(model.spec.names.map((_, i) => [i, new Set(inputsOf(model, i))]));
  const ancestors = (node: number): Set<number> => {
    const seen = new Set([node]);
    for (const at of seen) for (const source of feeds.get(at)!) seen.add(source);
    return seen;
  };
  for (const node of [0, 50, 150, 299]) {
    const up = reach(model, [node], true);
    const down = reach(model, [node], false);
    const expected = ancestors(node);
    for (let other = 0; other < 300; other++) {
      assert.equal(up[other], Number(expected.has(other)));
      assert.equal(down[other], Number(ancestors(other).has(node)));
    }
  }
});

test("a chain of 100,000 nodes is walked without recursion", () => {
  const model = modelOf(Array.from({ length: 100_000 }, (_, i) => ({ name: `n${i}`, inputs: i ? [`n${i - 1}`] : [] })));
  assert.equal(reach(model, [99_999], true).reduce((a, b) => a + b, 0), 100_000);
  assert.equal(between(model, 10, 20).reduce((a, b) => a + b, 0), 11);
});

test("paths between two nodes are found from either end, through scopes, and not where there are none", () => {
  const model = modelOf(classifier());
  const path = ["hidden/w", "hidden/matmul", "hidden/add", "hidden/relu", "matmul"];
  const [w, matmul, t] = ["hidden/w", "matmul", "t"].map((name) => model.node(name));
  assert.deepEqual(flagged(model, between(model, w, matmul)), path);
  assert.deepEqual(flagged(model, between(model, matmul, w)), path);
  assert.deepEqual(flagged(model, between(model, t, matmul)), []);
  assert.deepEqual(flagged(model, between(model, model.itemOf("hidden/"), matmul)).slice(-2), ["hidden/relu", "matmul"]);
});

test("highlighted lines join highlighted items, whatever is open", () => {
  const model = modelOf(transformer(120));
  const selected = model.node("layer1/attention/scores");
  for (const open of [[], ["layer1"], model.scopes.slice(1).map(({ path }) => path)]) {
    const drawing = drawingOf(model, open);
    const { focus } = focusOf(model, drawing, { found: undefined, line: -1, selected, other: -1, paths: "upstream" });
    const { scene } = drawing;
    assert(focus!.items[selected] && focus!.items[model.itemOf("layer0/")] && !focus!.items[model.itemOf("layer2/")]);
    assert(focus!.pieces.size > 0 && focus!.pieces.size < scene.pieceFlags.length);
    for (const p of focus!.pieces) {
      for (const end of [scene.pieceFrom[p], scene.pieceTo[p]]) assert(end < 0 || focus!.items[end], "a line leads to a dimmed item");
    }
  }
});

test("both ways leave out the lines that lead past the selection", () => {
  const model = modelOf([
    { name: "a" }, { name: "b", inputs: ["a"] }, { name: "c", inputs: ["b"] }, { name: "d", inputs: ["c", "a"] },
  ]);
  const drawing = drawingOf(model, []);
  const { focus } = focusOf(model, drawing, { found: undefined, line: -1, selected: model.node("b"), other: -1, paths: "both" });
  const past = drawing.wires.route(indexOfLine(drawing, model.node("a"), model.node("d")));
  assert.deepEqual([past.from, past.to], [[model.node("a")], [model.node("d")]]);
  assert([...past.pieces].every((p) => !focus!.pieces.has(p)));
  assert(focus!.items[model.node("d")]);
});

function indexOfLine(drawing: Drawing, from: number, to: number): number {
  for (let p = 0; p < drawing.scene.pieceFlags.length; p++) {
    const route = drawing.wires.route(p);
    if (drawing.scene.pieceFrom[p] === from && route.to.includes(to) && route.to.length === 1) return p;
  }
  return -1;
}

test("a line is found under the pointer and names its ends", () => {
  const model = modelOf(classifier());
  const drawing = drawingOf(model, []);
  const [add, p] = ["add", "p"].map((name) => model.node(name));
  const piece = [...drawing.scene.pieceFrom.keys()].find((k) => drawing.scene.pieceFrom[k] === add && drawing.scene.pieceTo[k] === p)!;
  const [x0, y0, , x1, , y3] = drawing.scene.pieces.subarray(6 * piece, 6 * piece + 6);
  const middle = (y0 + y3) / 2;
  assert.equal(drawing.at((x0 + x1) / 2, middle, 6).line, piece);
  assert.equal(drawing.at((x0 + x1) / 2 + 400, middle, 6).line, -1);
  assert.deepEqual(drawing.ends(piece), { from: [add], to: [p] });
  const hidden = model.itemOf("hidden/");
  const inward = [...drawing.scene.pieceTo.keys()].find((k) => drawing.scene.pieceTo[k] === hidden)!;
  assert.deepEqual(named(model, drawing.ends(inward).to), ["hidden/matmul"], "into a closed scope it goes to the node that reads it");
  const [x, y, w, h] = drawing.rect(hidden)!;
  assert.deepEqual(drawing.at(x + 14, y + h / 2, 6), { item: hidden, toggle: true, line: -1 });
  assert.deepEqual(drawing.at(x + w - 5, y + h / 2, 6), { item: hidden, toggle: false, line: -1 });
});

test("sizes are read from specs, a free dimension counting as one", () => {
  assert.deepEqual(["f32[2, 3]", "f32[B, 64]", "f32[2*B, 8]", "f32[]", "i64[t_0]", "f32[0, 4]", "f32[8*B]", "f32[2*B + 1]", "bool"].map(elements), [6, 64, 16, 1, 1, 0, 8, 2, 1]);
});

const given = (model: GraphModel, values: Record<string, number>, scale: OverlaySpec["scale"] = "linear"): OverlaySpec => ({
  title: "norm", unit: "", scale, values: new DataView(Float64Array.from(model.spec.names, (name) => values[name] ?? NaN).buffer),
});

test("overlays: scopes hold the sum of sizes and the extreme of what the kernel sends", () => {
  const model = modelOf(classifier());
  const hidden = model.itemOf("hidden/");
  const parameters = Overlay.of(model, "parameters", undefined)!;
  assert.equal(parameters.values[hidden], 64 * 32 + 32);
  assert.equal(parameters.values[model.node("hidden/matmul")], 64 * 32, "an op has what it reads");
  assert(Number.isNaN(parameters.values[model.node("p")]));
  const size = Overlay.of(model, "size", undefined)!;
  assert.equal(size.values[model.node("hidden/relu")], 32);
  assert.deepEqual([size.low, size.high], [1, 64 * 32 + 32 + 3 * 32]);
  const sent = Overlay.of(model, "overlay", given(model, { "hidden/w": -4, "hidden/b": 3, p: 1 }))!;
  assert.deepEqual([sent.values[hidden], sent.low, sent.high], [3, -4, 3]);
  const signed = Overlay.of(model, "overlay", given(model, { "hidden/w": -4, "hidden/b": 3 }, "diverging"))!;
  assert.deepEqual([signed.values[hidden], signed.low, signed.high], [-4, -4, 4]);
  assert.deepEqual([signed.place(-4), signed.place(0), signed.place(4)], [0, 0.5, 1]);
  assert.equal(Overlay.of(model, "category", given(model, {})), undefined);
  assert.equal(Overlay.of(model, "overlay", undefined), undefined);
  const short = { ...given(model, {}), values: new DataView(new ArrayBuffer(8)) };
  assert.equal(Overlay.of(model, "overlay", short), undefined, "values of the graph before it grew");
});

test("overlays: awkward numbers stay off the scale", () => {
  const model = modelOf(classifier());
  const log = Overlay.of(model, "overlay", given(model, { x: 0, t: -2, p: 1e-3, loss: 10, matmul: Infinity }, "log"))!;
  assert.deepEqual([log.low, log.high], [1e-3, 10]);
  const shades = log.shades(false);
  assert.deepEqual(["x", "t", "add"].map((name) => shades.has(model.node(name))), [false, false, false]);
  assert.equal(log.place(Infinity), 1, "beyond the end is the end");
  assert(Math.abs(log.place(0.1) - 0.5) < 1e-12);
  assert.deepEqual(log.marks().map((v) => Math.round(Math.log10(v))), [-3, -2, -1, 0, 1]);
  const flat = Overlay.of(model, "overlay", given(model, { p: 2, loss: 2 }))!;
  assert.deepEqual([flat.place(2), flat.marks()], [0.5, []]);
  const none = Overlay.of(model, "overlay", given(model, {}))!;
  assert.deepEqual([none.shades(true).size, none.empty, flat.empty], [0, true, false]);
  assert(Overlay.of(model, "overlay", given(model, { x: 0, t: -2 }, "log"))!.empty, "nothing that a logarithm has");
});

test("ramps: lightness runs one way, and every shade carries readable ink", () => {
  const rgb = (css: string): Rgb => css.match(/\d+/g)!.map(Number) as Rgb;
  const contrast = (a: string, b: string): number => {
    const [x, y] = [luminance(rgb(a)), luminance(rgb(b))].sort((p, q) => q - p);
    return (x + 0.05) / (y + 0.05);
  };
  for (const dark of [false, true]) {
    for (const diverging of [false, true]) {
      const shades = ramp(diverging, dark);
      for (const { fill, ink } of shades) assert(contrast(fill, ink) >= 4.5, `${ink} on ${fill}`);
      const lightness = shades.map(({ fill }) => toOklab(rgb(fill))[0]);
      const halves = diverging ? [lightness.slice(0, 32), lightness.slice(32).reverse()] : [lightness];
      for (const half of halves) {
        const up = half[half.length - 1] > half[0];
        for (let k = 1; k < half.length; k++) assert(up ? half[k] > half[k - 1] : half[k] < half[k - 1], `step ${k}`);
      }
    }
  }
  assert.deepEqual(shadeAt(ramp(false, false), 7), ramp(false, false)[63]);
});

test("marks: a path inside of a composite or of a closed scope lights what is drawn around it", () => {
  const model = modelOf(classifier());
  const lit = (open: string[], current: string): string => {
    const drawing = drawingOf(model, open);
    const marks = marksOf(model, drawing.wires, drawing.isDrawn, { current, stops: ["hidden/relu", "gone"], blamed: [] });
    assert.deepEqual(named(model, marks.stops), open.length ? ["hidden/relu"] : ["hidden/"]);
    assert.equal(marks.tainted, undefined);
    return marks.current < 0 ? "" : model.itemName(marks.current);
  };
  assert.equal(lit([], "loss::log_softmax::exp"), "loss");
  assert.equal(lit([], "hidden/relu::max"), "hidden/");
  assert.equal(lit(["hidden"], "hidden/relu::max"), "hidden/relu");
  assert.equal(lit([], ""), "");
  assert.equal(lit([], "elsewhere/exp"), "");
  assert.equal(itemAround(model, "/"), -1);
  assert.equal(drawnFor(model, () => false, 3), -1);
});

test("marks: an error is inherited by what feeds the blamed through floating-point results alone", () => {
  const model = modelOf(classifier());
  const matmul = model.node("matmul");
  assert.deepEqual(flagged(model, inheritors(model, [matmul])), ["x", "hidden/w", "hidden/b", "hidden/matmul", "hidden/add", "hidden/relu", "w2"]);
  assert(!inheritors(model, [model.node("loss")])[model.node("t")], "labels are whole numbers");
  const drawing = drawingOf(model, []);
  const marks = marksOf(model, drawing.wires, drawing.isDrawn, { current: "", stops: [], blamed: ["matmul"] });
  assert(marks.tainted!.items[model.itemOf("hidden/")] && !marks.tainted!.items[model.node("b2")]);
  const { scene } = drawing;
  const into = [...scene.pieceTo.keys()].filter((p) => scene.pieceTo[p] === matmul);
  assert(into.length === 2 && into.every((p) => marks.tainted!.pieces.has(p)), "the lines into the blamed node pass the error on");
});

test("marks, paths and overlays are drawn, and dimming ends where it should", () => {
  const model = modelOf(classifier());
  const drawing = drawingOf(model, ["hidden"]);
  const theme = {
    font: "serif", surface: "rgb(255, 255, 255)", raised: "rgb(245, 245, 245)", ink: "rgb(0, 0, 0)", quiet: "rgb(90, 90, 90)",
    dark: false, line: "rgb(200, 200, 200)", wire: "rgb(140, 140, 140)", accent: "rgb(0, 90, 200)", series: [], category: (name: string) => (name === "loss" ? "rgb(213, 94, 0)" : "rgb(1, 2, 3)"),
  };
  const svg = (extra: object): string => {
    const pen = new SvgPen("serif");
    const look = { theme, selected: -1, hovered: -1, lit: new Set<number>(), frozen: new Set<number>(), ...extra };
    drawing.painter.paint(pen, { x: 0, y: 0, width: drawing.scene.width, height: drawing.scene.height, scale: 1 }, look);
    return pen.finish(0, 0, 1, 1, "white", "t");
  };
  const plain = svg({});
  assert(!plain.includes("opacity=") && !plain.includes("rgb(213, 94, 0)"));
  const marks = marksOf(model, drawing.wires, drawing.isDrawn, { current: "add", stops: ["p"], blamed: ["matmul"] });
  assert(svg({ marks }).includes('fill="rgb(213, 94, 0)"'), "the sign of a fault");
  const { focus } = focusOf(model, drawing, { found: find(model, "op:matmul").items, line: -1, selected: -1, other: -1, paths: "none" });
  const dimmed = svg({ focus });
  const clear = [...dimmed.matchAll(/<text[^>]*>(\w+)<\/text>/g)].filter(([whole]) => !whole.includes("opacity=")).map(([, text]) => text);
  assert.deepEqual(clear, ["hidden", "matmul", "matmul"]);
  const shades = Overlay.of(model, "parameters", undefined)!.shades(false);
  assert(svg({ shades }).includes(shades.get(model.node("w2"))!.fill));
});

test("DOT holds what is drawn, and names stay names", () => {
  assert.equal(quote('a"b\\'), '"a\\"b\\\\"');
  assert.equal(quote("<b>\n"), '"<b>\\n"');
  const model = modelOf(classifier());
  const closed = dotOf(model, drawingOf(model, []).scene);
  assert.doesNotMatch(closed, /subgraph/);
  assert.match(closed, /label="hidden\\n5 nodes", shape=box3d/);
  assert.equal(closed.match(/->/g)!.length, 8);
  const open = dotOf(model, drawingOf(model, ["hidden"]).scene);
  assert.equal(open.match(/subgraph/g)!.length, 1);
  assert.equal(open.match(/->/g)!.length, 12);
  const big = dotOf(modelOf(transformer(400)), drawingOf(modelOf(transformer(400)), ["layer0", "layer0/attention", "layer1"]).scene);
  assert.equal(big.match(/\{/g)!.length, 4);
  assert.equal(big.match(/\}/g)!.length, 4);
});

test("bringing to the middle keeps the scale, and text gets readable", () => {
  const view = new Viewport();
  view.fit({ width: 5000, height: 5000, anchor: [2500, 0] }, 500, 500, false);
  view.show(1900, 2980, 200, 40, 500, 400, true);
  assert(view.scale >= 0.66);
  const [x, y] = view.toPlane(250, 200);
  assert(Math.abs(x - 2000) < 1e-9 && Math.abs(y - 3000) < 1e-9);
  assert(!view.untouched);
  view.show(0, 0, 300, 9000, 500, 400, true);
  assert(view.y < 0 && view.y > -50, "the top of what is taller than the screen");
});

test("steps along edges go to inputs, outputs and from one of them to the next", () => {
  const model = modelOf(classifier());
  const walk = new Walk(model);
  const names = (start: string, ways: Way[]): string[] => {
    let at = model.itemOf(start);
    return ways.map((way) => {
      at = walk.from(at, way);
      return at < 0 ? "" : model.itemName(at);
    });
  };
  assert.deepEqual(names("matmul", ["in", "after", "after", "before"]), ["hidden/relu", "w2", "hidden/relu", "w2"]);
  assert.deepEqual(names("add", ["out", "after", "out"]), ["p", "loss", ""]);
  assert.deepEqual(names("x", ["in"]), [""]);
  assert.deepEqual(names("hidden/", ["out"]), [""]);
  assert.equal(walk.from(-1, "in"), -1);
});

test("marks: the gradient of a blamed node is at fault, and those of what feeds it inherit the error", () => {
  const nodes: Plain[] = [
    { name: "x", kind: "placeholder" }, { name: "mul", inputs: ["x"] }, { name: "exp", inputs: ["mul"] },
    { name: "gradients/exp/mul", of: "exp", inputs: ["exp"] }, { name: "gradients/mul/mul", of: "mul", inputs: ["gradients/exp/mul"] },
  ];
  const model = modelOf(nodes);
  const drawing = drawingOf(model, []);
  const { blamed, tainted } = marksOf(model, drawing.wires, drawing.isDrawn, { current: "", stops: [], blamed: ["exp"] });
  assert.deepEqual([...blamed], [model.node("exp"), model.twinOf(model.node("exp"))]);
  assert(tainted!.items[model.node("mul")] && tainted!.items[model.twinOf(model.node("mul"))]);
  assert(!tainted!.items[model.twinOf(model.node("exp"))]);
});
