// Notebooks that are written for somebody who has asked for one.

import { PathExt } from "@jupyterlab/coreutils";
import type { ICodeCell, IMarkdownCell, INotebookContent } from "@jupyterlab/nbformat";
import type { ServiceManager } from "@jupyterlab/services";

export function codeCell(source: string): ICodeCell {
  return { cell_type: "code", source, metadata: {}, outputs: [], execution_count: null };
}

export function markdownCell(source: string): IMarkdownCell {
  return { cell_type: "markdown", source, metadata: {} };
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
  const { content } = await services.contents.get(folder, { type: "directory", content: true });
  const taken = new Set((content as { name: string }[]).map((item) => item.name));
  for (let k = 1; ; k++) {
    const found = k === 1 ? `${name}.ipynb` : `${name} ${k}.ipynb`;
    if (!taken.has(found)) return PathExt.join(folder, found);
  }
}
