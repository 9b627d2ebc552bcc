import { mountTensorPanel } from "./tensor/tensor_panel";
import { defineWidget, openSaved, type Saved } from "./ui/shell";

const widget = defineWidget(() => undefined, mountTensorPanel);
export default widget;
export const open = (el: HTMLElement, saved: Saved): void => openSaved(widget, el, saved);
