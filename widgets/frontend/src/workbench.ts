// The panels of one graph side by side. They share a model, so what is selected or frozen in one is so in all.

import { mountGraphPanel } from "./graph/graph_panel";
import { mountPlotPanel, plotStore } from "./plot/plot_panel";
import { mountParameterPanel } from "./table/parameter_panel";
import { element } from "./ui/dom";
import { defineWidget, openSaved, type Saved } from "./ui/shell";

const widget = defineWidget(plotStore, (root, model, store) => {
  const side = element("div", { class: "gw-side" });
  const bench = element("div", { class: "gw-bench" });
  root.append(bench);
  const cleanups = [mountGraphPanel(bench, model)];
  bench.append(side);
  cleanups.push(mountPlotPanel(side, model, store), mountParameterPanel(side, model));
  return () => cleanups.forEach((cleanup) => cleanup());
});
export default widget;
export const open = (el: HTMLElement, saved: Saved): void => openSaved(widget, el, saved);
