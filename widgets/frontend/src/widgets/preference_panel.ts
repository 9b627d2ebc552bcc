import { defineWidget } from "../core/shell";
import { pairsPanel } from "../panels/rollouts/pairs";

const { widget, open } = defineWidget(pairsPanel);
export { widget as default, open };
