// Rollouts and, behind a tab, the stepper on what computes a token of one.

import { defineWidget } from "../core/shell";
import { mountTabs } from "../core/tabs";
import { rolloutsPanel } from "../panels/rollouts/panel";
import { stepperPanel } from "../panels/stepper/panel";

const { widget, open } = defineWidget({
  prepare: rolloutsPanel.prepare,
  mount: (root, model, store) => mountTabs(root, model, "rollout_page", [
    { name: "rollouts", title: "Rollouts", mount: (host) => rolloutsPanel.mount(host, model, store) },
    { name: "step", title: "Step", mount: (host) => stepperPanel.mount(host, model, undefined) },
  ]),
});
export { widget as default, open };
