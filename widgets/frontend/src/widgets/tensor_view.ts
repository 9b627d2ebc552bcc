import { tensorPanel } from "../panels/tensor/panel";
import { defineWidget } from "../core/shell";

const { widget, open } = defineWidget(tensorPanel);
export { widget as default, open };
