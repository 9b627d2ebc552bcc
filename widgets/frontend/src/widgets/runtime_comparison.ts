import { comparePanel } from "../panels/compare/panel";
import { defineWidget } from "../core/shell";

const { widget, open } = defineWidget(comparePanel);
export { widget as default, open };
