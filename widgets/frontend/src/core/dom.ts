// Small helpers for building DOM. Everything that comes from a graph goes through text nodes, never through HTML.

import { icon } from "./icons";

export { ICONS } from "./icons";

type Attributes = Record<string, string | number | boolean | undefined>;

export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K, attributes: Attributes = {}, ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === true) node.setAttribute(key, "");
    else if (value !== undefined && value !== false) node.setAttribute(key, String(value));
  }
  node.append(...children);
  return node;
}

export function svg(tag: string, attributes: Record<string, string | number>): SVGElement {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, String(value));
  return node;
}

/** A button with words on it, in a style of its own. */
export function textButton(style: string, text: string, onClick: () => void, attributes: Attributes = {}): HTMLButtonElement {
  const node = element("button", { type: "button", class: style, ...attributes }, text);
  node.addEventListener("click", onClick);
  return node;
}

/** A button with an icon and a tooltip that says what it does. */
export function button(path: string, label: string, onClick: () => void): HTMLButtonElement {
  const node = textButton("gw-button", "", onClick, { title: label, "aria-label": label });
  node.append(icon(path));
  return node;
}

/** A button with a word on it; `main` for the one thing to do next. */
export function action(label: string, onClick: () => void, main = false): HTMLButtonElement {
  return textButton(main ? "gw-action gw-action-main" : "gw-action", label, onClick);
}

/** A box to check; `onChange` is told whether it is. */
export function checkbox(onChange: (on: boolean) => void, attributes: Attributes = {}): HTMLInputElement {
  const node = element("input", { type: "checkbox", ...attributes });
  node.addEventListener("change", () => onChange(node.checked));
  return node;
}

/** A control with its label: behind a box, before anything else. */
export function field(label: string, control: HTMLElement): HTMLLabelElement {
  const box = control instanceof HTMLInputElement && control.type === "checkbox";
  return element("label", { class: "gw-field" }, ...(box ? [control, label] : [label, control]));
}

/** Code that says what to do where there is nothing to see yet. */
export function example(code: string): HTMLElement {
  return element("code", { class: "gw-code gw-example" }, code);
}

/** A menu of [value, text] pairs. */
export function select<const T extends string>(label: string, options: readonly (readonly [T, string])[], onChange: (value: T) => void): HTMLSelectElement {
  const node = element("select", { class: "gw-select", "aria-label": label, title: label });
  node.append(...options.map(([value, text]) => element("option", { value }, text)));
  node.addEventListener("change", () => onChange(node.value as T));
  return node;
}

/**
 * Runs `draw` once in the next frame, however often it is asked for. While a pointer is down on something in one of `lists`
 * it waits: a row that is built anew between press and release would lose its click.
 */
export function everyFrame(draw: () => void, ...lists: HTMLElement[]): { request: () => void; cancel: () => void } {
  let handle = 0;
  let pressed = false;
  let waits = false;
  const request = (): void => {
    waits = pressed;
    if (pressed) return;
    handle ||= requestAnimationFrame(() => {
      handle = 0;
      if (pressed) waits = true;
      else draw();
    });
  };
  const release = (): void => {
    pressed = false;
    if (waits) request(); // the click comes before the next frame
  };
  for (const list of lists) {
    list.addEventListener("pointerdown", ({ target }) => (pressed = target !== list)); // on itself it scrolls
    for (const end of ["pointerup", "pointercancel", "pointerleave"] as const) list.addEventListener(end, release);
  }
  const cancel = (): void => {
    cancelAnimationFrame(handle);
    handle = 0;
  };
  return { request, cancel };
}

/** A canvas that fills its parent at the resolution of the screen. */
export class Surface {
  readonly canvas = element("canvas", { class: "gw-canvas", "aria-hidden": "true" });
  readonly context: CanvasRenderingContext2D;
  width = 0;
  height = 0;
  ratio = 1;

  constructor(private readonly parent: HTMLElement, onResize: () => void) {
    parent.append(this.canvas);
    this.context = this.canvas.getContext("2d")!;
    this.observer = new ResizeObserver(() => {
      this.measure();
      onResize();
    });
    this.observer.observe(parent);
    this.measure();
  }

  private readonly observer: ResizeObserver;

  private measure(): void {
    this.ratio = window.devicePixelRatio || 1;
    this.width = this.parent.clientWidth;
    this.height = this.parent.clientHeight;
    this.canvas.width = Math.round(this.width * this.ratio);
    this.canvas.height = Math.round(this.height * this.ratio);
  }

  /** Clears the canvas and sets it to CSS pixels; false while it has no size. */
  begin(): boolean {
    if (this.ratio !== (window.devicePixelRatio || 1)) this.measure();
    if (!this.width || !this.height) return false;
    this.context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    this.context.clearRect(0, 0, this.width, this.height);
    return true;
  }

  dispose(): void {
    this.observer.disconnect();
  }
}
