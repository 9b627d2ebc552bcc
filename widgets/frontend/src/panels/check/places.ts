// Ways to a node at fault: into sight in the drawing, and there in the stepper, where a widget has them.

import { ask, commit, isSaved, type Model } from "../../core/afm";
import { element, textButton } from "../../core/dom";

/** Buttons that lead to an address; nothing beside a widget without drawing. */
export function ways(model: Model, address: string): HTMLElement {
  const show = (): void => commit(model, "selected", address);
  const links = [textButton("gw-text-link", "show", show, { title: `Show ${address} in the drawing` })];
  if (model.get("stepping") !== undefined && !isSaved(model)) {
    const step = (): void => {
      show();
      commit(model, "tab", "step");
      ask(model, "stepper.move", { verb: "run_to", name: address });
    };
    links.push(textButton("gw-text-link", "step", step, { title: `Run the stepper to ${address}` }));
  }
  return element("span", { class: "gw-ways" }, ...links);
}
