// The inspector beside the drawing, over the traits `inspector` and `selected`: opened by its button or the key I.

import { factsOf } from "./model/facts";
import { Inspector } from "./inspector";
import type { GraphModel } from "./model/model";
import type { Overlay } from "./picture/overlay";
import { ask, commit, isSaved, type Cleanup, type Model } from "../../core/afm";
import { copyText } from "../../core/clipboard";
import { canShowSource, showSource } from "../../core/source";
import type { Theme } from "../../core/theme";

export interface Inspected {
  visit(item: number): void;
  /** What is selected, the colours, and the theme. */
  shown(): [item: number, overlay: Overlay | undefined, theme: Theme | undefined];
  /** Gives the focus back to the drawing. */
  focus(): void;
}

export function mountInspector(graph: GraphModel, model: Model, cleanup: Cleanup, { visit, shown, focus }: Inspected): { root: HTMLElement; update: () => void } {
  const store = factsOf(model);
  const live = !isSaved(model) && model.get("inspector") !== undefined;
  const copy = (item: number): void => {
    const name = graph.itemName(item);
    store.code((code) => void copyText(sheet.root, code));
    ask(model, "inspector.code", { name });
  };
  const source = (node: number): void => void showSource(sheet.root, graph.spec.name, graph.spec.names[node]);
  const close = (): void => {
    commit(model, "inspector", false);
    focus();
  };
  const sheet = new Inspector(graph, store, { visit, close, copy: live ? copy : undefined, source: canShowSource(model) ? source : undefined });
  const update = (): void => {
    const open = Boolean(model.get("inspector"));
    sheet.root.hidden = !open;
    if (!open) return;
    store.want();
    sheet.show(...shown());
  };
  cleanup.model(model, "change:inspector", update);
  return { root: sheet.root, update };
}
