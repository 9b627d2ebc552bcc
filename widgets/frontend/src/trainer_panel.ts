import { plotStore } from "./plot/series";
import { scheduleStore } from "./trainer/schedule";
import { mountTraining } from "./trainer/training";
import type { Model } from "./ui/afm";
import { defineWidget, openSaved, type Saved } from "./ui/shell";

const widget = defineWidget((model: Model) => ({ plot: plotStore(model), schedule: scheduleStore(model) }), mountTraining);
export default widget;
export const open = (el: HTMLElement, saved: Saved): void => openSaved(widget, el, saved);
