import { mountRunsPanel } from "./runs/runs_panel";
import { runsStore } from "./runs/store";
import { defineWidget, openSaved, type Saved } from "./ui/shell";

const widget = defineWidget(runsStore, mountRunsPanel);
export default widget;
export const open = (el: HTMLElement, saved: Saved): void => openSaved(widget, el, saved);
