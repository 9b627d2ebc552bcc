import { runsPanel } from "../panels/runs/panel";
import { defineWidget } from "../core/shell";

const { widget, open } = defineWidget(runsPanel);
export { widget as default, open };
