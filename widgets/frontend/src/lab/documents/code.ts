// The code that reads a file, for a cell.

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

/** A path as a notebook in `folder` names it. */
export function from(folder: string, path: string): string {
  const [here, there] = [folder.split("/").filter(Boolean), path.split("/")];
  let shared = 0;
  while (shared < here.length && shared < there.length - 1 && here[shared] === there[shared]) shared++;
  return [...here.slice(shared).map(() => ".."), ...there.slice(shared)].join("/");
}
