// Pointer and wheel on a drawing that is panned and zoomed. They do not get between a reader and the page: the wheel
// zooms once the drawing has the focus, or with Ctrl held.

import type { Cleanup } from "./afm";
import { element } from "./dom";
import css from "./grasp.css";
import { addStyle } from "./style";

addStyle(css);

/** A pointer that moves less than this between press and release has clicked. */
const CLICK = 4;
const SPEED = 0.0025; // of the wheel; a pinch, which arrives with Ctrl, moves it in smaller steps
const PINCH = 0.01;

export interface Grasp {
  /** What a reader is asked to click. */
  what: string;
  /** Whether an event is meant for the drawing, and not for what lies over it. */
  own?: (event: MouseEvent) => boolean;
  /** Whether the wheel zooms without Ctrl. */
  focused: () => boolean;
  hover: (x: number, y: number) => void;
  leave: () => void;
  click: (x: number, y: number, event: PointerEvent) => void;
  double: (x: number, y: number) => void;
  pan: (dx: number, dy: number) => void;
  zoom: (factor: number, x: number, y: number) => void;
}

/** Places are in CSS pixels from the upper left corner of `stage`. */
export function grasp(stage: HTMLElement, cleanup: Cleanup, calls: Grasp): void {
  const { own = () => true } = calls;
  const hint = element("div", { class: "gw-hint", hidden: true }, `Click the ${calls.what}, or hold Ctrl, to zoom with the wheel`);
  stage.append(hint);
  let fading: ReturnType<typeof setTimeout> | undefined;
  let pressed: { x: number; y: number; moved: boolean } | undefined;
  const at = (event: MouseEvent): [number, number] => {
    const { left, top } = stage.getBoundingClientRect();
    return [event.clientX - left, event.clientY - top];
  };
  const release = (): void => {
    pressed = undefined;
    stage.classList.remove("gw-panning");
  };
  cleanup.dom(stage, "pointerdown", (event) => {
    if (event.button > 1 || !own(event)) return;
    const [x, y] = at(event);
    pressed = { x, y, moved: false };
    stage.setPointerCapture(event.pointerId);
  });
  cleanup.dom(stage, "pointermove", (event) => {
    const [x, y] = at(event);
    if (!pressed) {
      if (own(event)) calls.hover(x, y);
      return;
    }
    if (!pressed.moved && Math.hypot(x - pressed.x, y - pressed.y) < CLICK) return;
    calls.pan(x - pressed.x, y - pressed.y);
    pressed = { x, y, moved: true };
    stage.classList.add("gw-panning");
  });
  cleanup.dom(stage, "pointerup", (event) => {
    const clicked = pressed && !pressed.moved;
    release();
    if (clicked) calls.click(...at(event), event);
  });
  cleanup.dom(stage, "pointercancel", release);
  cleanup.dom(stage, "pointerleave", () => calls.leave());
  cleanup.dom(stage, "dblclick", (event) => own(event) && calls.double(...at(event)));
  cleanup.dom(stage, "wheel", (event) => {
    if (!own(event)) return;
    if (!calls.focused() && !event.ctrlKey && !event.metaKey) {
      hint.hidden = false;
      clearTimeout(fading);
      fading = setTimeout(() => (hint.hidden = true), 1500);
      return;
    }
    event.preventDefault();
    const pixels = event.deltaMode === 1 ? event.deltaY * 16 : event.deltaY;
    calls.zoom(Math.exp(-Math.max(-120, Math.min(120, pixels)) * (event.ctrlKey ? PINCH : SPEED)), ...at(event));
  }, { passive: false });
  cleanup.add(() => clearTimeout(fading));
}
