import { graphPanel } from "../panels/graph/panel";
import { defineWidget } from "../core/shell";

const { widget, open } = defineWidget(graphPanel);
export { widget as default, open };
