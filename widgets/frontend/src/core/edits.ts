// What was changed by hand and outlives its cell, as a line below the panels: each change can be taken back, or all.

import { ask, isSaved, type Cleanup, type Model } from "./afm";
import { element, textButton } from "./dom";
import { counted } from "./format";

interface Edit {
  key: string;
  text: string;
}

export function mountEdits(root: HTMLElement, model: Model, cleanup: Cleanup): void {
  const summary = element("summary", {});
  const list = element("ul", { "aria-label": "Changed by hand" });
  const undoAll = textButton("gw-text-link", "Undo all", () => ask(model, "desk.undo"));
  const box = element("details", { class: "gw-edits", hidden: true }, summary, list, undoAll);
  root.append(box);
  const update = (): void => {
    const edits = (model.get("edits") as Edit[] | undefined) ?? [];
    box.hidden = !edits.length;
    summary.textContent = `${counted(edits.length, "change")} by hand`;
    summary.title = "Changes that were made here and not by a cell; they stay when the cell runs again";
    list.replaceChildren(...edits.map(({ key, text }) => {
      const undo = textButton("gw-text-link", "Undo", () => ask(model, "desk.undo", { key }), { "aria-label": `Undo ${text}` });
      return element("li", {}, element("span", { title: text }, text), ...(isSaved(model) ? [] : [undo]));
    }));
    undoAll.hidden = isSaved(model) || edits.length < 2;
  };
  cleanup.model(model, "change:edits", update);
  update();
}
