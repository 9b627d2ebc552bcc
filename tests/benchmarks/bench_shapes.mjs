// Figures of the drawings of models: node tests/benchmarks/bench_shapes.mjs FILE.json ... (after `npm ci` in
// widgets/frontend); `python -m tests.benchmarks.drawing` writes the files. Of each, as it opens and with all blocks
// open: boxes, the scale at which Fit shows all, boxes wholly in the first view of a stage of 710 × 510, the share of
// vertical pieces of line, and the area of boxes in that of the drawing.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const [WIDTH, HEIGHT] = [710, 510];
const LEGIBLE = 0.42; // from this scale on there is text
const frontend = join(dirname(fileURLToPath(import.meta.url)), "../../widgets/frontend");
const { build } = createRequire(join(frontend, "package.json"))("esbuild");
const bundle = await build({
  stdin: {
    contents: ["model/model", "layout/engine", "layout/first", "picture/viewport"].map((name) => `export * from "./src/panels/graph/${name}";`).join("\n"),
    resolveDir: frontend,
  },
  bundle: true, format: "esm", platform: "node", write: false,
});
const { GraphModel, LayoutEngine, Viewport, openAtFirst } = await import(
  `data:text/javascript;base64,${Buffer.from(bundle.outputFiles[0].text).toString("base64")}`
);

const decode = (value) => {
  if (Array.isArray(value) || value === null || typeof value !== "object") return value;
  if (typeof value.$bytes === "string") {
    const bytes = Uint8Array.from(Buffer.from(value.$bytes, "base64"));
    return new DataView(bytes.buffer);
  }
  return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, decode(part)]));
};

function figures(model, open) {
  const engine = new LayoutEngine(model, WIDTH / HEIGHT);
  const began = performance.now();
  const scene = engine.layout(open);
  const time = performance.now() - began;
  const view = new Viewport();
  view.fit(scene, WIDTH, HEIGHT, false);
  const fit = view.scale;
  view.fit(scene, WIDTH, HEIGHT, true);
  const window = view.window(WIDTH, HEIGHT);
  let [area, legible, vertical] = [0, 0, 0];
  for (let k = scene.frameCount; k < scene.items.length; k++) {
    const [x, y, w, h] = scene.rects.subarray(4 * k, 4 * k + 4);
    area += w * h;
    const inside = x >= window.x && y >= window.y && x + w <= window.x + window.width && y + h <= window.y + window.height;
    if (inside && view.scale >= LEGIBLE) legible++;
  }
  for (let p = 0; p < scene.pieceFlags.length; p++) if (Math.abs(scene.pieces[6 * p] - scene.pieces[6 * p + 3]) < 1) vertical++;
  const share = (part, whole) => `${Math.round((100 * part) / whole)} %`;
  return [scene.items.length - scene.frameCount, fit.toPrecision(2), legible, share(vertical, scene.pieceFlags.length || 1), share(area, scene.width * scene.height), `${time.toFixed(0)} ms`];
}

const titles = ["boxes", "Fit", "legible", "vertical", "area", "layout"];
console.log("".padEnd(16), "as it opens".padEnd(55), "all blocks open");
console.log("".padEnd(16), [...titles, ...titles].map((title) => title.padStart(8)).join(" "));
for (const file of process.argv.slice(2)) {
  const model = new GraphModel(decode(JSON.parse(readFileSync(file, "utf8"))));
  const blocks = model.scopes.flatMap((scope, s) => (s > 0 && scope.of < 0 && scope.kind !== "card" ? [s] : []));
  const cells = [...figures(model, openAtFirst(model)), ...figures(model, blocks)];
  console.log(basename(file, ".json").padEnd(16), cells.map((cell) => String(cell).padStart(8)).join(" "));
}
