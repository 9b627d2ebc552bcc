// The panels of one graph: the drawing on the left, all others behind tabs on the right. They share a model, so what is
// selected, frozen, stepped to or at fault in one is so in all.

import { mountCheckPanel } from "./check/check_panel";
import { checkStore } from "./check/store";
import { mountGraphPanel } from "./graph/graph_panel";
import { plotStore } from "./plot/series";
import { mountRunsPanel } from "./runs/runs_panel";
import { runsStore } from "./runs/store";
import { mountStepperPanel } from "./stepper/stepper_panel";
import { mountParameterPanel } from "./table/parameter_panel";
import { statisticsStore } from "./table/statistics";
import { mountTensorPanel } from "./tensor/tensor_panel";
import { scheduleStore } from "./trainer/schedule";
import { mountTraining } from "./trainer/training";
import type { Model } from "./ui/afm";
import { element } from "./ui/dom";
import { defineWidget, openSaved, type Saved } from "./ui/shell";
import { addStyle } from "./ui/style";
import { mountTabs, type Tab } from "./ui/tabs";
import css from "./workbench.css";

addStyle(css);

const stores = (model: Model) => ({
  plot: plotStore(model), schedule: scheduleStore(model), statistics: statisticsStore(model), check: checkStore(model), runs: runsStore(model),
});

const widget = defineWidget(stores, (root, model, { plot, schedule, statistics, check, runs }) => {
  const bench = element("div", { class: "gw-bench" });
  root.append(bench);
  const tabs: Tab[] = [
    { name: "train", title: "Train", mount: (host) => mountTraining(host, model, { plot, schedule }) },
    { name: "parameters", title: "Parameters", mount: (host) => mountParameterPanel(host, model, statistics) },
    { name: "step", title: "Step", mount: (host) => mountStepperPanel(host, model) },
    { name: "tensor", title: "Tensor", mount: (host) => mountTensorPanel(host, model) },
    { name: "check", title: "Check", mount: (host) => mountCheckPanel(host, model, check) },
    { name: "runs", title: "Runs", mount: (host) => mountRunsPanel(host, model, runs) },
  ];
  const cleanups = [mountGraphPanel(bench, model), mountTabs(bench, model, tabs)];
  return () => cleanups.forEach((cleanup) => cleanup());
});
export default widget;
export const open = (el: HTMLElement, saved: Saved): void => openSaved(widget, el, saved);
