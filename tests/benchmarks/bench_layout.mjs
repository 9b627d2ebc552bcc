// Time of the graph layout: node tests/benchmarks/bench_layout.mjs (after `npm ci` in widgets/frontend).
//
// Prints the median of five runs for the first drawing, with every scope closed, for opening one scope of it, and
// for the graph with all scopes open. Nothing is asserted: the numbers belong to the machine.
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const frontend = join(dirname(fileURLToPath(import.meta.url)), "../../widgets/frontend");
const { build } = createRequire(join(frontend, "package.json"))("esbuild");
const bundle = await build({
  stdin: {
    contents: `
      export { GraphModel } from "./src/panels/graph/model/model";
      export { LayoutEngine } from "./src/panels/graph/layout/engine";
      export * from "./tests/support/graphs";`,
    resolveDir: frontend,
  },
  bundle: true, format: "esm", platform: "node", write: false,
});
const { GraphModel, LayoutEngine, specOf, transformer, tangle, differentiated } = await import(
  `data:text/javascript;base64,${Buffer.from(bundle.outputFiles[0].text).toString("base64")}`
);

const scoped = (nodes, size) => nodes.map((node, i) => ({ ...node, name: rename(node.name, i, size), inputs: node.inputs.map((n) => rename(n, Number(n.slice(1)), size)) }));
const rename = (name, i, size) => `s${Math.floor(i / size)}/${name}`;
const chain = (size) => Array.from({ length: size }, (_, i) => ({ name: `n${i}`, inputs: i ? [`n${i - 1}`] : [] }));
const cases = {
  "transformer 2,000": transformer(2000),
  "transformer 10,000": transformer(10_000),
  "transformer 10,000, no scopes": transformer(10_000, false),
  "tangle 2,000, no scopes": tangle(2000, 1),
  "tangle 10,000 in scopes of 20": scoped(tangle(10_000, 1), 20),
  "tangle 10,000, no scopes": tangle(10_000, 1),
  "chain 100,000": chain(100_000),
  "transformer 2,000 and gradients": differentiated(transformer(2000)),
  "transformer 10,000 and gradients": differentiated(transformer(10_000)),
};

function median(run) {
  const times = Array.from({ length: 5 }, () => {
    const begin = performance.now();
    run();
    return performance.now() - begin;
  });
  return times.sort((a, b) => a - b)[2];
}

console.log("ms, median of 5".padEnd(34), "decode", " closed", "open one", "open all", "  boxes", "  pieces");
for (const [name, nodes] of Object.entries(cases)) {
  const spec = specOf(nodes);
  const decode = median(() => new GraphModel(spec));
  const model = new GraphModel(spec);
  const all = model.scopes.map((_, s) => s).filter((s) => s > 0 && model.scopes[s].of < 0); // gradients stay closed
  const closed = median(() => new LayoutEngine(model).layout([]));
  const engine = new LayoutEngine(model);
  engine.layout([]);
  const begin = performance.now();
  engine.layout(all.slice(0, 1));
  const one = all.length ? performance.now() - begin : NaN;
  const scene = new LayoutEngine(model).layout(all);
  const open = median(() => new LayoutEngine(model).layout(all));
  const cell = (x, width) => (Number.isNaN(x) ? "-" : x.toFixed(x < 10 ? 1 : 0)).padStart(width);
  console.log(name.padEnd(34), cell(decode, 6), cell(closed, 7), cell(one, 8), cell(open, 8), String(scene.items.length).padStart(7), String(scene.pieceFlags.length).padStart(8));
}
