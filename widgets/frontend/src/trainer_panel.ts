import { mountPlotPanel, plotStore } from "./plot/plot_panel";
import { mountTrainPanel } from "./trainer/train_panel";
import { element } from "./ui/dom";
import { defineWidget, openSaved, type Saved } from "./ui/shell";

const widget = defineWidget(plotStore, (root, model, store) => {
  const host = element("div", { class: "gw-slot gw-training" });
  root.append(host);
  const cleanups = [mountTrainPanel(host, model), mountPlotPanel(host, model, store)];
  return () => cleanups.forEach((cleanup) => cleanup());
});
export default widget;
export const open = (el: HTMLElement, saved: Saved): void => openSaved(widget, el, saved);
