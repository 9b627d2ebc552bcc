import { mountParameterPanel } from "./table/parameter_panel";
import { statisticsStore } from "./table/statistics";
import { defineWidget, openSaved, type Saved } from "./ui/shell";

const widget = defineWidget(statisticsStore, mountParameterPanel);
export default widget;
export const open = (el: HTMLElement, saved: Saved): void => openSaved(widget, el, saved);
