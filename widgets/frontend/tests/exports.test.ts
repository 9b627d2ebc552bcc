// What a drawing is saved as: PDF and Mermaid, also of names that would be markup.
import { test } from "node:test";
import assert from "node:assert/strict";
import { mermaidOf, mermaidQuote } from "../src/panels/graph/dot";
import { Drawing } from "../src/panels/graph/picture/drawing";
import { LayoutEngine } from "../src/panels/graph/layout/engine";
import { GraphModel } from "../src/panels/graph/model/model";
import { PdfPen } from "../src/panels/graph/picture/pdf";
import { pdfOf } from "../src/panels/graph/save";
import type { Theme } from "../src/core/theme";
import { classifier, specOf, type Plain } from "./support/graphs";

const THEME: Theme = {
  dark: false, font: "sans-serif", surface: "#ffffff", raised: "#f5f5f5", ink: "#1f2430", quiet: "#667085", line: "#d9dbdf", wire: "#868f9c", accent: "#1565c0",
  series: ["#0072b2"], category: () => "#0072b2",
};
const drawn = (nodes: Plain[], open: string[] = []): { model: GraphModel; drawing: Drawing } => {
  const model = new GraphModel(specOf(nodes));
  return { model, drawing: new Drawing(model, new LayoutEngine(model).layout(open.map((path) => model.scope(path)))) };
};

test("a PDF holds the text of the drawing, and its table points at its objects", () => {
  const { drawing } = drawn(classifier(), ["hidden"]);
  const file = pdfOf(drawing.painter, { theme: THEME, selected: -1, hovered: -1, lit: new Set(), frozen: new Set() });
  assert(file.startsWith("%PDF-1.4") && file.endsWith("%%EOF\n"));
  const table = [...file.matchAll(/^(\d{10}) 00000 n $/gm)].map(([, at]) => Number(at));
  assert.equal(table.length, 7);
  table.forEach((at, k) => assert(file.slice(at).startsWith(`${k + 1} 0 obj`), `object ${k + 1}`));
  const start = Number(/startxref\n(\d+)/.exec(file)![1]);
  assert(file.slice(start).startsWith("xref"));
  const [, length, rest] = /\/Length (\d+) >>\nstream\n([\s\S]*)\nendstream/.exec(file)!;
  assert.equal(Number(length), rest.length);
  const text = [...file.matchAll(/<([0-9a-f]+)> Tj/g)].map(([, hex]) => hex.replace(/../g, (code) => String.fromCharCode(parseInt(code, 16))));
  for (const word of ["matmul", "hidden", "relu"]) assert(text.includes(word), word);
  assert(![...file].some((letter) => letter > "\x7f"), "bytes are letters");
});

test("letters that a PDF's fonts do not have are marked, and symbols are drawn", () => {
  const pen = new PdfPen();
  pen.text("∂ a→é漢", 0, 0, { size: 10, color: "#000000" });
  const file = pen.finish(0, 0, 50_000, 20, "#ffffff");
  assert(file.includes("/S 10 Tf <b6> Tj /F 10 Tf <2061> Tj /S 10 Tf <ae> Tj /F 10 Tf <e93f> Tj"));
  assert(file.includes("/MediaBox [0 0 14400 5.76]"), "a page is no larger than readers take");
});

test("Greek is drawn, and what no font of a PDF has is a stencil, one for each text", () => {
  const cuts: string[] = [];
  const pen = new PdfPen((value) => {
    cuts.push(value);
    return { width: 16, height: 2, dots: "0f0ff0f0" };
  });
  pen.text("λΩς?", 0, 0, { size: 10, color: "#000000" });
  for (const x of [12, 60]) pen.text("модель", x, 6, { size: 12, color: "#000000", align: "center" });
  pen.text("漢", 0, 0, { size: 12, color: "#000000" });
  const file = pen.finish(0, 0, 100, 20, "#ffffff");
  assert.deepEqual(cuts, ["модель", "漢"]);
  assert(file.includes("/S 10 Tf <6c5756> Tj /F 10 Tf <3f> Tj"));
  assert.equal(file.match(/\/T0 Do Q/g)!.length, 2);
  assert.match(file, /q 0 0 0 rg 2\.67 0 0 -0\.33 10\.67 6\.17 cm \/T0 Do Q/);
  assert.match(file, /\/XObject << \/T0 8 0 R \/T1 9 0 R >>/);
  assert.match(file, /\/ImageMask true \/Width 16 \/Height 2 .*\/Length 9 >>\nstream\n0f0ff0f0>\nendstream/);
});

test("Mermaid has a subgraph for each open scope, and names stay names", () => {
  const { model, drawing } = drawn(classifier(), ["hidden"]);
  const text = mermaidOf(model, drawing.scene);
  assert(text.startsWith("flowchart TB\n"));
  assert.equal([...text.matchAll(/^ *subgraph /gm)].length, [...text.matchAll(/^ *end$/gm)].length);
  assert(text.includes(`n${model.node("x")} -->|"B×64"| n${model.node("hidden/matmul")}`));
  assert(text.includes(`n${model.node("hidden/w")}(["w<br/>64×32"])`));
  for (const evil of ['"]; click n0 "javascript:1"', "<img src=x>", "end", "a`b#c&d", "%%{init}%%"]) {
    const quoted = mermaidQuote(evil);
    assert(/^"[^"<>`&%]*"$/.test(quoted.replace("<br/>", "")), quoted);
    assert.equal(quoted.slice(1, -1).replace(/#(\d+);/g, (_, code: string) => String.fromCodePoint(Number(code))), evil);
  }
});
