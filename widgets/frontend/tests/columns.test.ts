// Large drawings: a straight main line, columns that fit the window, many lines as buses, and what is seen first.
import { test } from "node:test";
import assert from "node:assert/strict";
import { LayoutEngine } from "../src/panels/graph/layout/engine";
import { openAtFirst } from "../src/panels/graph/layout/first";
import { Labels } from "../src/panels/graph/picture/labels";
import { GraphModel } from "../src/panels/graph/model/model";
import { outputsOf, sourcesOf } from "../src/panels/graph/model/trace";
import { linesOf, PIECE, PieceFlag, placesOf, type Scene } from "../src/panels/graph/layout/scene";
import { Painter } from "../src/panels/graph/picture/paint";
import { SvgPen } from "../src/panels/graph/picture/pen";
import { Viewport } from "../src/panels/graph/picture/viewport";
import { backward, ladder, specOf, tangle, transformer, type Plain } from "./support/graphs";

const build = (nodes: Plain[]): GraphModel => new GraphModel(specOf(nodes));
const allScopes = (model: GraphModel): number[] => model.scopes.map((_, s) => s).slice(1);
const rectOf = (scene: Scene, item: number): number[] => [...scene.rects.subarray(4 * placesOf(scene).get(item)!, 4 * placesOf(scene).get(item)! + 4)];
const middle = (scene: Scene, item: number): number => rectOf(scene, item)[0] + rectOf(scene, item)[2] / 2;

const THEME = {
  font: "sans-serif", surface: "rgb(255, 255, 255)", raised: "rgb(245, 245, 245)", ink: "rgb(0, 0, 0)", quiet: "rgb(90, 90, 90)",
  dark: false, line: "rgb(200, 200, 200)", wire: "rgb(140, 140, 140)", accent: "rgb(0, 90, 200)", series: [], category: () => "rgb(0, 114, 178)",
};

/** A chain of layers; each reads a weight that comes over two ops, and every third one the input again. */
function layers(count: number): Plain[] {
  const nodes: Plain[] = [{ name: "x", kind: "placeholder" }];
  for (let k = 0; k < count; k++) {
    const before = k ? `add${k - 1}` : "x";
    nodes.push({ name: `size${k}`, kind: "constant" }, { name: `full${k}`, inputs: [`size${k}`] }, { name: `w${k}`, op: "expand_dims", inputs: [`full${k}`] });
    nodes.push({ name: `mul${k}`, inputs: [before, `w${k}`] }, { name: `add${k}`, inputs: k % 3 === 2 ? [`mul${k}`, "x"] : [`mul${k}`] });
  }
  return nodes;
}

/** One source, readers of it, and as many sources of one reader. */
function fan(readers: number): Plain[] {
  const names = Array.from({ length: readers }, (_, k) => `${k}`);
  return [
    { name: "x", kind: "placeholder" },
    ...names.map((k) => ({ name: `r${k}`, inputs: ["x"] })),
    ...names.map((k): Plain => ({ name: `s${k}`, kind: "placeholder" })),
    { name: "all", inputs: names.map((k) => `s${k}`) },
  ];
}

const corpus: [string, Plain[]][] = [
  ["layers", layers(60)],
  ["chain", layers(0).concat(Array.from({ length: 400 }, (_, k) => ({ name: `n${k}`, inputs: [k ? `n${k - 1}` : "x"] })))],
  ["transformer in scopes", transformer(400)],
  ["transformer without scopes", transformer(300, false)],
  ["ladder", ladder(12)],
  ["backward pass", backward(24)],
  ["tangle", tangle(300, 4)],
  ["fan", fan(130)],
];

function overlapping(rects: ArrayLike<number>[]): boolean {
  const byTop = [...rects].sort((a, b) => a[1] - b[1]);
  return byTop.some((p, i) => {
    for (let k = i + 1; k < byTop.length && byTop[k][1] < p[3]; k++) if (p[0] < byTop[k][2] && byTop[k][0] < p[2]) return true;
    return false;
  });
}

/** Corners of the boxes, without frames. */
const boxes = (scene: Scene): number[][] =>
  [...scene.items.keys()].slice(scene.frameCount).map((k) => {
    const [x, y, w, h] = scene.rects.subarray(4 * k, 4 * k + 4);
    return [x, y, x + w, y + h];
  });

for (const [name, nodes] of corpus) {
  test(`${name}: no boxes overlap, no line from column to column passes through one, labels keep clear of all`, () => {
    const model = build(nodes);
    for (const open of [[], openAtFirst(model), allScopes(model)]) {
      const scene = new LayoutEngine(model).layout(open);
      const all = boxes(scene);
      assert(!overlapping(all), "boxes overlap");
      for (let p = 0; p < scene.pieceFlags.length; p++) {
        if (!(scene.pieceFlags[p] & PieceFlag.Bus)) continue;
        const [x0, , y1, x1] = scene.pieces.subarray(PIECE * p, PIECE * p + 4);
        const [left, right] = [Math.min(x0, x1) + 1, Math.max(x0, x1) - 1];
        assert(!all.some((box) => box[0] < right && left < box[2] && box[1] < y1 && y1 < box[3]), "a line runs through a box");
      }
      const labels = new Labels(model, scene).boxes();
      assert(!overlapping(labels), "labels overlap");
      assert(!labels.some((a) => all.some((b) => a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3])), "a label lies on a box");
    }
  });

  test(`${name}: Fit shows all, and the first view shows where reading begins`, () => {
    const model = build(nodes);
    for (const [width, height] of [[710, 510], [360, 600], [1500, 400]]) {
      const scene = new LayoutEngine(model, width / height).layout(openAtFirst(model));
      const view = new Viewport();
      view.fit(scene, width, height, false);
      const whole = view.window(width, height);
      assert(whole.x <= 0 && whole.y <= 0 && whole.x + whole.width >= scene.width && whole.y + whole.height >= scene.height);
      assert(Math.abs(whole.x + whole.width / 2 - scene.width / 2) < 1e-6 * scene.width, "it is in the middle");
      view.fit(scene, width, height, true);
      assert(view.scale >= 0.66 || view.scale === whole.scale);
      const begin = view.window(width, height);
      const [x, y] = scene.anchor;
      assert(x >= begin.x && x <= begin.x + begin.width && y >= begin.y && y < begin.y + begin.height / 2, "reading begins in sight");
      const legible = boxes(scene).filter((box) => box[2] > begin.x && box[0] < begin.x + begin.width && box[3] > begin.y && box[1] < begin.y + begin.height);
      assert(legible.length >= 3, `${legible.length} boxes in sight`);
    }
  });
}

test("the reader of many inputs stands under the middle one, that of few under the first", () => {
  for (const [count, above] of [[3, 0], [21, 10]]) {
    const inputs: Plain[] = Array.from({ length: count }, (_, k) => ({ name: `x${k}`, kind: "placeholder" }));
    const model = build([...inputs, { name: "join", inputs: inputs.map(({ name }) => name) }, { name: "y", inputs: ["join"] }]);
    const scene = new LayoutEngine(model).layout([]);
    for (const node of [count, count + 1]) assert.equal(middle(scene, node), middle(scene, above));
  }
});

test("the main line of a column is straight, whatever stands beside it", () => {
  const model = build(layers(60));
  const scene = new LayoutEngine(model).layout([]);
  const main = ["x", ...Array.from({ length: 60 }, (_, k) => [`mul${k}`, `add${k}`]).flat()];
  const places = new Set(main.map((name) => Math.round(10 * middle(scene, model.node(name)))));
  const starts = main.filter((name, k) => k === 0 || rectOf(scene, model.node(name))[1] < rectOf(scene, model.node(main[k - 1]))[1]);
  assert(starts.length > 1 && places.size === starts.length, `${places.size} places of ${starts.length} columns`);
  for (let k = 0; k < 60; k++) assert(Math.abs(rectOf(scene, model.node(`mul${k}`))[1] - rectOf(scene, model.node(`w${k}`))[1]) < 400 || starts.includes(`mul${k}`), `w${k} is far from its reader`);
});

test("weights stand beside their readers in graphs of thousands, too", () => {
  const nodes = layers(500); // 2,501: beyond the network simplex
  const model = build(nodes);
  const scene = new LayoutEngine(model, 0).layout([]);
  for (let k = 0; k < 500; k++) {
    const [reader, weight, full] = [`mul${k}`, `w${k}`, `full${k}`].map((name) => rectOf(scene, model.node(name))[1]);
    assert(reader > weight && reader - weight < 120 && weight > full && weight - full < 120, `${k}: ${full}, ${weight}, ${reader}`);
  }
});

test("columns take the shape of the window", () => {
  const model = build(Array.from({ length: 600 }, (_, k) => ({ name: `n${k}`, inputs: k ? [`n${k - 1}`] : [] })));
  for (const aspect of [0.6, 1.35, 3]) {
    const { width, height } = new LayoutEngine(model, aspect).layout([]);
    assert(width / height > aspect / 1.5 && width / height < aspect * 1.5, `${width} × ${height} for ${aspect}`);
  }
  const low = build(Array.from({ length: 12 }, (_, k) => ({ name: `n${k}`, inputs: k ? [`n${k - 1}`] : [] })));
  assert(new LayoutEngine(low).layout([]).width < 200, "what is not tall stays one column");
});

/** Chains side by side that one node joins in the end, in a scope or not. */
function towers(lines: number, length: number, scope = ""): Plain[] {
  const nodes: Plain[] = [];
  for (let t = 0; t < lines; t++) {
    nodes.push({ name: `x${t}`, kind: "placeholder" });
    for (let k = 0; k < length; k++) nodes.push({ name: `${scope}t${t}_${k}`, inputs: [k ? `${scope}t${t}_${k - 1}` : `x${t}`] });
  }
  return [...nodes, { name: `${scope}join`, inputs: Array.from({ length: lines }, (_, t) => `${scope}t${t}_${length - 1}`) }];
}

/** A chain whose last node reads the first of as many others, too: so many lines lie over every cut. */
function skips(lines: number, length: number, scope = ""): Plain[] {
  const nodes = Array.from({ length }, (_, k): Plain => ({ name: `${scope}n${k}`, inputs: [k ? `${scope}n${k - 1}` : "x"] }));
  nodes[length - 1].inputs!.push(...Array.from({ length: lines - 1 }, (_, k) => `${scope}n${k}`));
  return [{ name: "x", kind: "placeholder" }, ...nodes];
}

test("a level is cut where few lines cross, in a scope or not", () => {
  const columns = (nodes: Plain[]): number => {
    const model = build(nodes);
    const scene = new LayoutEngine(model).layout(allScopes(model));
    const middles = boxes(scene).slice(1).map((box) => Math.round((box[0] + box[2]) / 2));
    return new Set(middles).size; // the chain is straight
  };
  for (const scope of ["", "s/"]) {
    for (const lines of [1, 2, 5]) assert(columns(skips(lines, 60, scope)) > 1, `${lines} lines ${scope}`);
    for (const lines of [6, 9]) assert.equal(columns(skips(lines, 160, scope)), 1, `${lines} lines ${scope}`);
  }
});

test("a column begins with the main line, and holds more than a box or two", () => {
  for (const lines of [2, 3]) {
    const model = build(towers(lines, 100));
    const scene = new LayoutEngine(model).layout([]);
    const left = new Set(boxes(scene).map((box) => Math.round(box[0] / 40)));
    assert(left.size <= 2 * lines, `${lines} towers stand side by side`);
  }
  for (let length = 20; length < 70; length++) {
    const all = boxes(new LayoutEngine(build(skips(1, length))).layout([]));
    for (const one of all) assert(all.filter((box) => box[0] < one[2] && one[0] < box[2]).length > 1, `a box alone, of ${length}`);
  }
});

test("a scope in columns is entered and left in its middle", () => {
  const inside = Array.from({ length: 80 }, (_, k) => ({ name: `s/n${k}`, inputs: [k ? `s/n${k - 1}` : "x"] }));
  const model = build([{ name: "x", kind: "placeholder" }, ...inside, { name: "y", inputs: ["s/n79"] }]);
  const scene = new LayoutEngine(model).layout(allScopes(model));
  const frame = rectOf(scene, model.n + 1);
  assert(frame[2] > 400, "it has columns");
  for (const name of ["x", "y"]) assert(Math.abs(middle(scene, model.node(name)) - frame[0] - frame[2] / 2) < 1, name);
});

test("many lines from one place, and to one, run together", () => {
  const model = build(fan(8));
  const scene = new LayoutEngine(model).layout([]);
  for (const [ends, hub] of [[scene.pieceFrom, "x"], [scene.pieceTo, "all"]] as const) {
    const heights = new Set<number>();
    ends.forEach((item, p) => {
      const [x0, , y1, x1] = scene.pieces.subarray(PIECE * p, PIECE * p + 4);
      if (item !== model.node(hub) || Math.abs(x0 - x1) < 1) return;
      assert(scene.pieceFlags[p] & PieceFlag.Bus);
      heights.add(Math.round(y1));
    });
    assert.equal(heights.size, 1, hub);
  }
});

const thousand = Array.from({ length: 1000 }, (_, k) => `${k}`);
const wide: [string, Plain[]][] = [
  ["readers of one input", [{ name: "x", kind: "placeholder" }, ...thousand.map((k) => ({ name: `n${k}`, inputs: ["x"] }))]],
  ["readers of two", [{ name: "x", kind: "placeholder" }, { name: "y", kind: "placeholder" }, ...thousand.map((k) => ({ name: `n${k}`, inputs: ["x", "y"] }))]],
  ["inputs of one reader", [...thousand.map((k): Plain => ({ name: `n${k}`, kind: "placeholder" })), { name: "all", inputs: thousand.map((k) => `n${k}`) }]],
  ["ways from one to one", [{ name: "x", kind: "placeholder" }, ...thousand.map((k) => ({ name: `n${k}`, inputs: ["x"] })), { name: "all", inputs: thousand.map((k) => `n${k}`) }]],
  ["ways with a weight each", [
    { name: "x", kind: "placeholder" },
    ...thousand.flatMap((k): Plain[] => [{ name: `w${k}`, kind: "variable" }, { name: `n${k}`, inputs: ["x", `w${k}`] }]),
    { name: "all", inputs: thousand.map((k) => `n${k}`) },
  ]],
];
for (const [name, nodes] of wide) {
  for (const inside of [false, true]) {
    test(`a thousand ${name}${inside ? ", in a scope," : ""} stand in a block whose columns are straight, and every line arrives`, () => {
      const within = (text: string): string => (inside && /^[nw]/.test(text) ? `s/${text}` : text);
      const model = build(nodes.map((node) => ({ ...node, name: within(node.name), inputs: node.inputs?.map(within) })));
      const scene = new LayoutEngine(model).layout(allScopes(model));
      assert(scene.width / scene.height > 0.5 && scene.width / scene.height < 3, `${scene.width} × ${scene.height}`);
      assert(scene.pieceFlags.length < 3400, `${scene.pieceFlags.length} pieces`);
      assert(!overlapping(boxes(scene)), "boxes overlap");
      const members = thousand.map((k) => model.node(within(`n${k}`)));
      const places = new Set(members.map((node) => Math.round(middle(scene, node))));
      assert(places.size <= 50, `${places.size} columns`);
      const busiest = scene.pieceWeight.reduce((most, weight) => Math.max(most, weight), 0);
      assert.equal(busiest > 900, Boolean(model.node("all") >= 0), `${busiest} lines run together`);
      for (const node of members.filter((_, k) => k % 97 === 0)) {
        const joined = new Set([...linesOf(scene, node)].flatMap((p) => [scene.pieceFrom[p], scene.pieceTo[p]]).filter((item) => item >= 0));
        const around = [...sourcesOf(model, node), ...outputsOf(model, node)];
        assert(around.length && around.every((other) => joined.has(other)), `${model.spec.names[node]} is joined to ${[...joined].join()}`);
      }
    });
  }
}

test("of scopes that are alike the first opens, or both of them", () => {
  const opened = (blocks: number): string[] => {
    const model = build(transformer(17 * blocks));
    return openAtFirst(model).map((s) => model.scopes[s].path);
  };
  assert.deepEqual(opened(2), ["layer0", "layer1", "layer0/attention", "layer0/mlp"]);
  const many = opened(20);
  assert(many.includes("layer0") && !many.includes("layer1"), many.join());
  assert.deepEqual(opened(3).filter((path) => !path.includes("/")), ["layer0"], "of three the first");
});

test("a scope in a scope in a scope is opened until there is enough to see", () => {
  const model = build(Array.from({ length: 600 }, (_, k) => ({ name: `${"s/".repeat(k + 1)}x` })));
  const open = openAtFirst(model);
  assert(open.length > 5 && open.length < 40);
  const scene = new LayoutEngine(model).layout(allScopes(model));
  assert.equal(scene.frameCount, 600);
  const [x, y] = scene.anchor;
  for (const top of [y, y + 7_000]) { // frames thousands of px wide have their titles in the window
    const pen = new SvgPen("sans-serif");
    const look = { theme: THEME, selected: -1, hovered: -1, lit: new Set<number>(), frozen: new Set<number>() };
    new Painter(model, scene).paint(pen, { x: x - 350, y: top, width: 700, height: 500, scale: 1 }, look);
    const svg = pen.finish(x - 350, top, 700, 500, "white", "");
    const titles = [...svg.matchAll(/<text x="(-?[\d.]+)"[^>]*>s<\/text>/g)].map((found) => Number(found[1]));
    assert(titles.length > 8 && titles.every((at) => at >= x - 350 && at < x + 350), `${titles.length} titles`);
    assert((svg.match(/<rect/g) ?? []).length < 100, "what is hidden is not painted");
  }
});

test("scopes that hold one scope and nothing else are one frame with it", () => {
  const model = build([
    { name: "x", kind: "placeholder" }, { name: "a/b/c/one", inputs: ["x"] }, { name: "a/b/c/two", inputs: ["a/b/c/one"] },
    { name: "d/e/f/g/three", inputs: ["a/b/c/two"] }, { name: "h/i/four", inputs: ["d/e/f/g/three"] }, { name: "h/five", inputs: ["h/i/four"] },
  ]);
  assert.deepEqual(model.scopes.slice(1).map((scope) => [scope.path, scope.label, scope.parent]), [["a/b/c", "a / b / c", 0], ["d/e/f/g", "d / … / g", 0], ["h", "h", 0], ["h/i", "i", 3]]);
  for (const path of ["a", "a/b", "a/b/c"]) assert.equal(model.scope(path), 1, path);
  assert.equal(new LayoutEngine(model).layout([1]).frameCount, 1);
});
