import { stepperPanel } from "../panels/stepper/panel";
import { defineWidget } from "../core/shell";

const { widget, open } = defineWidget(stepperPanel);
export { widget as default, open };
