// A notebook about a model: the cells that read it and draw it.

import { PathExt } from "@jupyterlab/coreutils";
import type { ICodeCell, IMarkdownCell, INotebookContent } from "@jupyterlab/nbformat";
import type { ServiceManager } from "@jupyterlab/services";
import type { Formats } from "../viewer/served";

const ALONE = /gw(\.\w+)+\(path\)/; // a call that needs nothing but the path

/** The code that reads a file, as its format says that it is read. */
export function readingCode(path: string, format: Formats["formats"][number] | undefined): string {
  const use = format?.use ?? "";
  const call = ALONE.exec(use)?.[0];
  const begin = `import gradwright as gw\n\npath = ${JSON.stringify(path)}\n`;
  if (!call) return `${begin}${use ? `# ${use}\n` : ""}gw.inspect(path)`;
  if (!format!.graph || !call.endsWith("load(path)")) return `${begin}${call}`;
  return `import gradwright as gw\nfrom gradwright_widgets import GraphView\n\npath = ${JSON.stringify(path)}\ngraph = ${call}\nGraphView(graph)`;
}

export function codeCell(source: string): ICodeCell {
  return { cell_type: "code", source, metadata: {}, outputs: [], execution_count: null };
}

export function markdownCell(source: string): IMarkdownCell {
  return { cell_type: "markdown", source, metadata: {} };
}

/** A path as a notebook in `folder` names it. */
export function from(folder: string, path: string): string {
  return PathExt.relative(`/${folder}`, `/${path}`);
}

/** Writes a new notebook of these cells into a folder, under a name that is free, and returns its path. */
export async function writeNotebook(services: ServiceManager.IManager, folder: string, name: string, cells: INotebookContent["cells"]): Promise<string> {
  await services.kernelspecs.ready;
  const specs = services.kernelspecs.specs;
  const known = Object.values(specs?.kernelspecs ?? {}).filter((spec) => spec?.language === "python");
  const spec = known.find((one) => one?.name === specs?.default) ?? known[0];
  const kernelspec = spec ? { name: spec.name, display_name: spec.display_name, language: "python" } : undefined;
  const content = { cells, metadata: kernelspec ? { kernelspec } : {}, nbformat: 4, nbformat_minor: 4 };
  const path = await freeName(services, folder, name);
  await services.contents.save(path, { type: "notebook", format: "json", content });
  return path;
}

async function freeName(services: ServiceManager.IManager, folder: string, name: string): Promise<string> {
  const { content } = await services.contents.get(folder, { type: "directory" });
  const taken = new Set((content as { name: string }[]).map((item) => item.name));
  for (let k = 1; ; k++) {
    const found = k === 1 ? `${name}.ipynb` : `${name} ${k}.ipynb`;
    if (!taken.has(found)) return PathExt.join(folder, found);
  }
}
