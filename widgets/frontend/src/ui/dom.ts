// Small helpers for building DOM. Everything that comes from a graph goes through text nodes, never through HTML.

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

const SVG = "http://www.w3.org/2000/svg";

/** A 16 by 16 icon of lines in the colour of the text around it. */
export function icon(path: string): SVGSVGElement {
  const svg = document.createElementNS(SVG, "svg");
  for (const [key, value] of Object.entries({ viewBox: "0 0 16 16", class: "gw-icon", "aria-hidden": "true" })) {
    svg.setAttribute(key, value);
  }
  const line = document.createElementNS(SVG, "path");
  line.setAttribute("d", path);
  svg.append(line);
  return svg;
}

export const ICONS = {
  fit: "M2.5 6V2.5H6M10 2.5h3.5V6M13.5 10v3.5H10M6 13.5H2.5V10",
  plus: "M8 3v10M3 8h10",
  minus: "M3 8h10",
  open: "M3 6l5 4 5-4M3 2.5h10M3 13.5h10",
  close: "M3 10l5-4 5 4M3 2.5h10M3 13.5h10",
  outline: "M6 3.5h7.5M6 8h7.5M6 12.5h7.5M2.5 3.5h.5M2.5 8h.5M2.5 12.5h.5",
  save: "M8 2.5v7M5 7l3 3 3-3M3 13.5h10",
} as const;

export function button(path: string, label: string, onClick: () => void): HTMLButtonElement {
  const node = element("button", { type: "button", class: "gw-button", title: label, "aria-label": label });
  node.append(icon(path));
  node.addEventListener("click", onClick);
  return node;
}

/** Runs `draw` once in the next frame, however often it is asked for. */
export function everyFrame(draw: () => void): { request: () => void; cancel: () => void } {
  let handle = 0;
  return {
    request: () => {
      handle ||= requestAnimationFrame(() => {
        handle = 0;
        draw();
      });
    },
    cancel: () => {
      cancelAnimationFrame(handle);
      handle = 0;
    },
  };
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
