// What to run where a graph has no loss, as a model that only infers: one of its outputs is chosen.

import { ask, isSaved, type Model } from "./afm";
import { action, element } from "./dom";

/** A line of outputs to choose from; undefined where a loss is known. */
export function outputChoice(model: Model): HTMLElement | undefined {
  const outputs = (model.get("outputs") as string[] | undefined) ?? [];
  if (!outputs.length || isSaved(model)) return undefined;
  const buttons = outputs.map((name) => action(name, () => ask(model, "desk.output", { name })));
  return element("div", { class: "gw-outputs", role: "group", "aria-label": "Outputs" }, element("span", {}, "or choose an output:"), ...buttons);
}
