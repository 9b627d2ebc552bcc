// Bundles the sources twice into the Python package: as one packed ES module per widget, and as the extension of
// JupyterLab. `--tests` bundles the tests for Node instead.
//
// Style sheets are inlined as text. A worker is imported as `worker:PATH`: it is bundled on its own and
// arrives as source text, so that it can be started from a Blob URL wherever the widget happens to run.
import { build, transform } from "esbuild";
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { deflateRawSync } from "node:zlib";

const here = dirname(fileURLToPath(import.meta.url));
const LIMIT = 180_000; // bytes; every widget instance carries its whole module in its state

/**
 * Bytes as text, five digits to the base of 85 for each four: a twentieth less than base64. The digits are the characters
 * from "(" to "~" without "<" and the backslash, so that they stand in a script, an attribute and JSON as they are.
 */
function digits(bytes) {
  const padded = Buffer.alloc(4 * Math.ceil(bytes.length / 4));
  bytes.copy(padded);
  let text = "";
  for (let at = 0; at < padded.length; at += 4) {
    const word = padded.readUInt32BE(at);
    for (let power = 85 ** 4; power >= 1; power /= 85) {
      const code = 40 + (Math.floor(word / power) % 85);
      text += String.fromCharCode(code < 60 ? code : code < 91 ? code + 1 : code + 2);
    }
  }
  return text;
}

/**
 * A module that unpacks itself: it travels at 45 % of its size. It is loaded from a
 * Blob, as anywidget loads the module that holds it.
 */
function packed(contents) {
  const data = deflateRawSync(contents, { level: 9 });
  return `const text = "${digits(data)}";
const words = new DataView(new ArrayBuffer(text.length * 4 / 5));
for (let i = 0, at = 0; i < text.length; at += 4) {
  let word = 0;
  for (const end = i + 5; i < end; i++) {
    const code = text.charCodeAt(i);
    word = word * 85 + code - 40 - (code > 60) - (code > 92);
  }
  words.setUint32(at, word);
}
const stream = new Blob([new Uint8Array(words.buffer, 0, ${data.length})]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
const url = URL.createObjectURL(new Blob([await new Response(stream).text()], { type: "text/javascript" }));
const { default: made, open } = await import(url);
URL.revokeObjectURL(url);
export { made as default, open };
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

/** A widget with its style sheets before all code: side by side the Workbench packs to 3 % less than spread out. */
const entry = {
  name: "entry",
  setup(plugin) {
    const styles = readdirSync(join(here, "src"), { recursive: true }).filter((f) => f.endsWith(".css")).sort();
    plugin.onResolve({ filter: /^entry:/ }, ({ path }) => ({ path: path.slice("entry:".length), namespace: "entry" }));
    plugin.onLoad({ filter: /.*/, namespace: "entry" }, ({ path }) => ({
      contents: [...styles.map((f) => `import "./src/${f}";`), `export { default } from "./src/widgets/${path}";`, `export * from "./src/widgets/${path}";`].join("\n"),
      resolveDir: here,
    }));
  },
};

const kB = (bytes) => `${(bytes / 1000).toFixed(1)} kB`;

async function tests() {
  rmSync(join(here, "build/tests"), { recursive: true, force: true });
  await build({
    ...common,
    entryPoints: readdirSync(join(here, "tests")).filter((f) => f.endsWith(".ts") && !f.endsWith(".d.ts")).map((f) => `tests/${f}`),
    outdir: "build/tests",
    outExtension: { ".js": ".mjs" },
    platform: "node",
    // Packages of JupyterLab that are written for CommonJS ask for modules of Node.
    banner: { js: 'import { createRequire } from "node:module"; const require = createRequire(import.meta.url);' },
    plugins: [workerSource, styleSheet],
  });
}

async function widgets() {
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
    console.log(`${basename(path)} ${kB(text.length)}, unpacked ${kB(contents.length)}`);
    if (text.length > LIMIT) throw new Error(`${path} has ${text.length} bytes; a widget module may have ${LIMIT}`);
  }
}

/**
 * The extension: esbuild makes modules of our sources, with what is loaded only when a document opens in chunks of its own,
 * and Jupyter's builder makes of them what JupyterLab loads. The builder is told of the packages that we name, at the oldest
 * version that we take: with its own table of versions an older JupyterLab would be warned of each.
 */
async function labextension() {
  const outdir = join(here, "build/lab");
  rmSync(outdir, { recursive: true, force: true });
  await build({
    ...common,
    entryPoints: ["src/lab/index.ts"],
    outdir,
    splitting: true,
    external: ["@jupyterlab/*", "@lumino/*"],
    loader: { ".ipynb": "json" }, // the tour
    plugins: [workerSource, styleSheet],
  });
  const find = createRequire(import.meta.url).resolve;
  const { dependencies } = JSON.parse(readFileSync(join(here, "package.json"), "utf8"));
  const { jupyterlab } = JSON.parse(readFileSync(find("@jupyterlab/core-meta/core.package.json"), "utf8"));
  const core = join(here, "build/core.package.json");
  writeFileSync(core, JSON.stringify({ dependencies, jupyterlab: { singletonPackages: jupyterlab.singletonPackages.filter((name) => name in dependencies) } }));
  const builder = find("@jupyter/builder/lib/build-labextension.js");
  const said = execFileSync(process.execPath, [builder, "--core-package-file", core, here], { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
  if (/\b(warning|error)\b/i.test(said)) console.warn(said);
  const made = resolve(here, "../gradwright_widgets/labextension");
  // We are compiled against the oldest JupyterLab that we take, and run in all that come after it: `labextension list` looks here.
  const told = JSON.parse(readFileSync(join(made, "package.json"), "utf8"));
  for (const [name, range] of Object.entries(told.dependencies)) told.dependencies[name] = range.replace("~", "^");
  writeFileSync(join(made, "package.json"), JSON.stringify(told, null, 2));
  for (const file of readdirSync(join(made, "static")).filter((name) => name.endsWith(".js")).sort()) {
    console.log(`labextension/${file} ${kB(readFileSync(join(made, "static", file)).length)}`);
  }
}

if (process.argv.includes("--tests")) await tests();
else {
  await widgets();
  await labextension();
}
