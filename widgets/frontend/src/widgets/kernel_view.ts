import { kernelsPanel } from "../panels/kernels/panel";
import { defineWidget } from "../core/shell";

const { widget, open } = defineWidget(kernelsPanel);
export { widget as default, open };
