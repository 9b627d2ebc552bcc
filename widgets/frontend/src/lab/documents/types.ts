// Which files open as models: those of our readers. What the server reads beside them is asked for when the page is there.

import { PathExt } from "@jupyterlab/coreutils";
import type { DocumentRegistry } from "@jupyterlab/docregistry";
import { markIcon } from "../icons";
import type { Formats, Served, Words } from "../viewer/served";

const EVENTS = "events.jsonl"; // what a run's folder has, and hardly any other

/** The path that the server is asked about: a run is its folder. */
export function modelPath(path: string): string {
  return PathExt.basename(path) === EVENTS ? PathExt.dirname(path) : path;
}

type FileType = Partial<DocumentRegistry.IFileType> & { name: string };

const common = { mimeTypes: ["application/octet-stream"], contentType: "file", fileFormat: null, icon: markIcon } as const;

export function knownTypes(words: Words): FileType[] {
  return [
    { ...common, name: "gradwright-archive", displayName: words("gradwright archive"), extensions: [".gw"] },
    { ...common, name: "gradwright-onnx", displayName: words("ONNX model"), extensions: [".onnx"] },
    { ...common, name: "gradwright-safetensors", displayName: words("safetensors"), extensions: [".safetensors", ".safetensors.index.json"] },
    { ...common, name: "gradwright-gguf", displayName: "GGUF", extensions: [".gguf"] },
    { ...common, name: "gradwright-pickle", displayName: words("pickled weights"), extensions: [".pt", ".pth", ".ckpt"] },
    { ...common, name: "gradwright-run", displayName: words("run of a training"), extensions: [], pattern: `^${EVENTS.replace(".", "\\.")}$` },
  ];
}

/** Adds the types of formats whose suffix no type of file has yet. */
export async function addServedTypes(registry: DocumentRegistry, served: Served, factory: string): Promise<void> {
  const { formats } = await served.get<Formats>("formats", {});
  for (const { name, title, suffixes } of formats) {
    const extensions = suffixes.filter((suffix) => !registry.getFileTypesForPath(`x${suffix}`).length);
    if (extensions.length) registry.addFileType({ ...common, name: `gradwright-${name}`, displayName: title, extensions }, [factory]);
  }
}
