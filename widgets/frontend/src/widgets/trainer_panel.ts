import { trainingPanel } from "../panels/training/panel";
import { defineWidget } from "../core/shell";

const { widget, open } = defineWidget(trainingPanel);
export { widget as default, open };
