import { mountStepperPanel } from "./stepper/stepper_panel";
import { defineWidget, openSaved, type Saved } from "./ui/shell";

const widget = defineWidget(() => undefined, mountStepperPanel);
export default widget;
export const open = (el: HTMLElement, saved: Saved): void => openSaved(widget, el, saved);
