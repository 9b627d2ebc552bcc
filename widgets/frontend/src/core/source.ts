// From a node to the line that made it: views ask, and the extension of JupyterLab, where there is one, goes there.

import { isSaved, type Model } from "./afm";

export interface SourceOf {
  /** Name of the graph. */
  graph: string;
  /** Name or address of the node. */
  node: string;
}

export const SOURCE = "gradwright:source";

/** Whether somebody in this page can go to lines of the graph of a model: of a file nobody knows any. */
export function canShowSource(model: Model): boolean {
  return !isSaved(model) && "gradwrightLab" in document.documentElement.dataset;
}

/** Goes to the line that made a node, as seen from a view of it; false where nobody can. */
export function showSource(at: HTMLElement, graph: string, node: string): boolean {
  return !at.dispatchEvent(new CustomEvent<SourceOf>(SOURCE, { bubbles: true, composed: true, cancelable: true, detail: { graph, node } }));
}
