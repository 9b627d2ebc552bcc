import { mountCheckPanel } from "./check/check_panel";
import { checkStore } from "./check/store";
import { defineWidget, openSaved, type Saved } from "./ui/shell";

const widget = defineWidget(checkStore, mountCheckPanel);
export default widget;
export const open = (el: HTMLElement, saved: Saved): void => openSaved(widget, el, saved);
