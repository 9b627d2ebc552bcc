import { adaptersPanel } from "../panels/adapters/panel";
import { defineWidget } from "../core/shell";

const { widget, open } = defineWidget(adaptersPanel);
export { widget as default, open };
