import { mountPlotPanel } from "./plot/plot_panel";
import { plotStore } from "./plot/series";
import { defineWidget, openSaved, type Saved } from "./ui/shell";

const widget = defineWidget(plotStore, mountPlotPanel);
export default widget;
export const open = (el: HTMLElement, saved: Saved): void => openSaved(widget, el, saved);
