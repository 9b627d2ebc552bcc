// The controls of a trainer over its curves.

import { mountPlotPanel } from "../plot/plot_panel";
import type { PlotStore } from "../plot/series";
import type { Model } from "../ui/afm";
import { element } from "../ui/dom";
import { mountTrainPanel } from "./train_panel";

export function mountTraining(host: HTMLElement, model: Model, store: PlotStore): () => void {
  const slot = element("div", { class: "gw-slot gw-training" });
  host.append(slot);
  const cleanups = [mountTrainPanel(slot, model), mountPlotPanel(slot, model, store)];
  return () => {
    cleanups.forEach((cleanup) => cleanup());
    slot.remove();
  };
}
