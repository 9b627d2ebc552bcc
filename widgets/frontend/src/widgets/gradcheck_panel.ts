import { checkPanel } from "../panels/check/panel";
import { defineWidget } from "../core/shell";

const { widget, open } = defineWidget(checkPanel);
export { widget as default, open };
