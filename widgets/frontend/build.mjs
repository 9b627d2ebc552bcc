// Bundles one packed ES module per widget into the Python package; `--tests` bundles the tests for Node instead.
//
// Style sheets are inlined as text. A worker is imported as `worker:PATH`: it is bundled on its own and
// arrives as source text, so that it can be started from a Blob URL wherever the widget happens to run.
import { build, transform } from "esbuild";
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { deflateRawSync } from "node:zlib";

const here = dirname(fileURLToPath(import.meta.url));
const LIMIT = 180_000; // bytes; every widget instance carries its whole module in its state

/**
 * A module that unpacks itself: it travels at 40 % of its size, and 300 kB are unpacked in 5 ms. It is loaded from a
 * Blob, as anywidget loads the module that holds it.
 */
function packed(contents) {
  const data = deflateRawSync(contents, { level: 9 }).toString("base64");
  return `const bytes = Uint8Array.from(atob("${data}"), (c) => c.charCodeAt(0));
const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
const url = URL.createObjectURL(new Blob([await new Response(stream).text()], { type: "text/javascript" }));
const { default: widget, open } = await import(url);
URL.revokeObjectURL(url);
export { widget as default, open };
`;
}

const common = {
  absWorkingDir: here,
  bundle: true,
  format: "esm",
  target: "es2022",
  legalComments: "none",
  logLevel: "warning",
};

const styleSheet = {
  name: "style-sheet",
  setup(plugin) {
    plugin.onLoad({ filter: /\.css$/ }, async ({ path }) => {
      const { code } = await transform(readFileSync(path, "utf8"), { loader: "css", minify: true });
      return { contents: code, loader: "text" };
    });
  },
};

const workerSource = {
  name: "worker-source",
  setup(plugin) {
    plugin.onResolve({ filter: /^worker:/ }, (args) => ({
      path: resolve(args.resolveDir, args.path.slice("worker:".length)),
      namespace: "worker-source",
    }));
    plugin.onLoad({ filter: /.*/, namespace: "worker-source" }, async (args) => {
      const bundle = await build({ ...common, entryPoints: [args.path], format: "esm", minify: true, write: false });
      return { contents: bundle.outputFiles[0].text, loader: "text" };
    });
  },
};

/** A widget with its style sheets before all code: side by side they pack to 146 kB in the Workbench, spread out to 150 kB. */
const entry = {
  name: "entry",
  setup(plugin) {
    const styles = readdirSync(join(here, "src"), { recursive: true }).filter((f) => f.endsWith(".css")).sort();
    plugin.onResolve({ filter: /^entry:/ }, ({ path }) => ({ path: path.slice("entry:".length), namespace: "entry" }));
    plugin.onLoad({ filter: /.*/, namespace: "entry" }, ({ path }) => ({
      contents: [...styles.map((f) => `import "./src/${f}";`), `export { default, open } from "./src/widgets/${path}";`].join("\n"),
      resolveDir: here,
    }));
  },
};

if (process.argv.includes("--tests")) {
  rmSync(join(here, "build/tests"), { recursive: true, force: true });
  await build({
    ...common,
    entryPoints: readdirSync(join(here, "tests")).filter((f) => f.endsWith(".ts") && !f.endsWith(".d.ts")).map((f) => `tests/${f}`),
    outdir: "build/tests",
    outExtension: { ".js": ".mjs" },
    platform: "node",
    plugins: [workerSource, styleSheet],
  });
} else {
  const outdir = resolve(here, "../gradwright_widgets/static");
  mkdirSync(outdir, { recursive: true });
  const names = readdirSync(join(here, "src/widgets")).filter((f) => f.endsWith(".ts")).map((f) => f.slice(0, -3));
  const { outputFiles } = await build({
    ...common,
    entryPoints: names.map((name) => ({ in: `entry:${name}`, out: name })),
    outdir,
    minify: true,
    charset: "utf8",
    plugins: [entry, workerSource, styleSheet],
    write: false,
  });
  for (const { path, contents } of outputFiles) {
    const text = packed(contents);
    writeFileSync(path, text);
    console.log(`${basename(path)} ${(text.length / 1000).toFixed(1)} kB, unpacked ${(contents.length / 1000).toFixed(1)} kB`);
    if (text.length > LIMIT) throw new Error(`${path} has ${text.length} bytes; a widget module may have ${LIMIT}`);
  }
}
