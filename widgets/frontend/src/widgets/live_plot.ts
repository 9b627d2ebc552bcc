import { plotPanel } from "../panels/plot/panel";
import { defineWidget } from "../core/shell";

const { widget, open } = defineWidget(plotPanel);
export { widget as default, open };
