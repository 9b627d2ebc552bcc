// A text and, behind a tab, the stepper on what computes a token of it.

import { defineWidget } from "../core/shell";
import { mountTabs } from "../core/tabs";
import { stepperPanel } from "../panels/stepper/panel";
import { textPanel } from "../panels/text/panel";

const { widget, open } = defineWidget({
  prepare: textPanel.prepare,
  mount: (root, model, store) => mountTabs(root, model, "text_page", [
    { name: "text", title: "Text", mount: (host) => textPanel.mount(host, model, store) },
    { name: "step", title: "Step", mount: (host) => stepperPanel.mount(host, model, undefined) },
  ]),
});
export { widget as default, open };
