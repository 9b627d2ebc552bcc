import { plotStore } from "./plot/series";
import { mountTraining } from "./trainer/training";
import { defineWidget, openSaved, type Saved } from "./ui/shell";

const widget = defineWidget(plotStore, mountTraining);
export default widget;
export const open = (el: HTMLElement, saved: Saved): void => openSaved(widget, el, saved);
