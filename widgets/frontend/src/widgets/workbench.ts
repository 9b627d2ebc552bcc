// The panels of one graph: the drawing on the left, all others behind tabs on the right. They share a model, so what is
// selected, frozen, stepped to or at fault in one is so in all.

import type { Model } from "../core/afm";
import type { Traits } from "../core/contract";
import { element } from "../core/dom";
import { lazyPanel } from "../core/lazy";
import type { Panel } from "../core/panel";
import { defineWidget } from "../core/shell";
import { addStyle } from "../core/style";
import { mountTabs, type Tab } from "../core/tabs";
import { adaptersPanel } from "../panels/adapters/panel";
import { checkPanel } from "../panels/check/panel";
import { comparePanel } from "../panels/compare/panel";
import { graphPanel } from "../panels/graph/panel";
import { parametersPanel } from "../panels/parameters/panel";
import { runsPanel } from "../panels/runs/panel";
import { stepperPanel } from "../panels/stepper/panel";
import { tensorPanel } from "../panels/tensor/panel";
import { trainingPanel } from "../panels/training/panel";
import css from "./workbench.css";

addStyle(css);

/** Lists without which a page is not there. */
const NEEDS: Partial<Record<Traits["tab"], Tab["needs"]>> = { adapters: "adapters", rollouts: "rollout_rewards", kernels: "kernel_devices" };

const PAGES: readonly { name: Traits["tab"]; title: string; panel: Panel<unknown> }[] = [
  { name: "train", title: "Train", panel: trainingPanel },
  { name: "rollouts", title: "Rollouts", panel: lazyPanel("rollout_rewards", "rollouts.sync", "rollouts.module") as Panel<unknown> },
  { name: "parameters", title: "Parameters", panel: parametersPanel },
  { name: "adapters", title: "Adapters", panel: adaptersPanel },
  { name: "step", title: "Step", panel: stepperPanel },
  { name: "tensor", title: "Tensor", panel: tensorPanel },
  { name: "check", title: "Check", panel: checkPanel },
  { name: "onnx", title: "ONNX", panel: comparePanel },
  { name: "kernels", title: "Kernels", panel: lazyPanel("kernel_devices", "kernels.sync", "kernels.module") as Panel<unknown> },
  { name: "runs", title: "Runs", panel: runsPanel },
];

function mountBench(root: HTMLElement, model: Model, shared: unknown[]): () => void {
  const bench = element("div", { class: "gw-bench" });
  root.append(bench);
  const tabs = PAGES.map(({ name, title, panel }, k) => ({ name, title, needs: NEEDS[name], mount: (host: HTMLElement) => panel.mount(host, model, shared[k]) }));
  const cleanups = [graphPanel.mount(bench, model, undefined), mountTabs(bench, model, "tab", tabs)];
  return () => cleanups.forEach((cleanup) => cleanup());
}

const { widget, open } = defineWidget({ prepare: (model) => PAGES.map(({ panel }) => panel.prepare(model)), mount: mountBench });
export { widget as default, open };
