// The panels of one graph: the drawing on the left, all others behind tabs on the right. They share a model, so what is
// selected, frozen or at fault in one is so in all.

import { mountGraphPanel } from "./graph/graph_panel";
import { mountPlotPanel, plotStore } from "./plot/plot_panel";
import { mountParameterPanel } from "./table/parameter_panel";
import { element } from "./ui/dom";
import { defineWidget, openSaved, type Saved } from "./ui/shell";
import { addStyle } from "./ui/style";
import { mountTabs } from "./ui/tabs";
import css from "./workbench.css";

addStyle(css);

const widget = defineWidget(plotStore, (root, model, store) => {
  const bench = element("div", { class: "gw-bench" });
  root.append(bench);
  const cleanups = [
    mountGraphPanel(bench, model),
    mountTabs(bench, model, [
      { name: "train", title: "Train", mount: (host) => mountPlotPanel(host, model, store) },
      { name: "parameters", title: "Parameters", mount: (host) => mountParameterPanel(host, model) },
    ]),
  ];
  return () => cleanups.forEach((cleanup) => cleanup());
});
export default widget;
export const open = (el: HTMLElement, saved: Saved): void => openSaved(widget, el, saved);
