import { parametersPanel } from "../panels/parameters/panel";
import { defineWidget } from "../core/shell";

const { widget, open } = defineWidget(parametersPanel);
export { widget as default, open };
