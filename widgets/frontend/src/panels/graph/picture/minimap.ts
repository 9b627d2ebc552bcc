// The whole drawing in a corner, with the window that is on the screen. What it shows is drawn once into a bitmap; a
// frame copies that and draws the window over it. It is for the pointer alone: the outline is the keyboard's way.

import { HEADER } from "../layout/parts";
import type { Look, Window } from "./look";
import type { Painter } from "./paint";
import { Surface, element } from "../../../core/dom";
import type { Scene } from "../layout/scene";
import type { Viewport } from "./viewport";

const WIDEST = 150;
const HIGHEST = 110;
const NARROWEST = 26;
const EDGE = 8; // to the edges of the drawing
const SMALL = 0.5; // of its size, where it would hide something; the pointer over it makes it large
/** Where it may be, the best first. */
const CORNERS = ["right bottom", "left bottom", "right top", "left top"] as const;

export class Minimap {
  readonly root = element("div", { class: "gw-minimap", "aria-hidden": "true", hidden: true });
  private readonly surface = new Surface(this.root, () => this.moved());
  private readonly bitmap = document.createElement("canvas");
  private stale = true;
  private pixels: [number, number] = [1, 1]; // of the map, per unit of the plane
  private corner: (typeof CORNERS)[number] = CORNERS[0];
  private small = false;

  constructor(private readonly view: Viewport, private readonly size: () => [number, number], private readonly moved: () => void) {
    let pressed = false;
    const move = (event: PointerEvent): void => {
      const box = this.root.getBoundingClientRect();
      const grown = box.width / this.root.offsetWidth; // while it becomes large
      const [width, height] = this.size();
      this.view.center((event.clientX - box.left) / (grown * this.pixels[0]), (event.clientY - box.top) / (grown * this.pixels[1]), width, height);
      this.moved();
    };
    const on = (type: "pointerdown" | "pointermove" | "pointerup" | "pointercancel", act: (event: PointerEvent) => void): void =>
      this.root.addEventListener(type, (event) => {
        event.stopPropagation(); // the drawing below is not meant
        act(event);
      });
    on("pointerdown", (event) => {
      pressed = true;
      this.root.setPointerCapture(event.pointerId);
      move(event);
    });
    on("pointermove", (event) => pressed && move(event));
    on("pointerup", () => (pressed = false));
    on("pointercancel", () => (pressed = false));
    this.root.addEventListener("dblclick", (event) => event.stopPropagation());
  }

  /** The drawing or its colours have changed. */
  invalidate(): void {
    this.stale = true;
  }

  /** Shows where the window is; hides the map while the window holds everything. */
  draw(painter: Painter, look: Look, window: Window, wanted: boolean): void {
    const { width, height } = painter.scene;
    const all = window.x <= 1 && window.y <= 1 && window.x + window.width >= width - 1 && window.y + window.height >= height - 1;
    this.root.hidden = !wanted || all || !width || !height;
    if (this.root.hidden) return;
    if (this.stale) this.render(painter, look);
    this.place(painter.scene, window);
    if (!this.surface.begin()) return;
    const { context } = this.surface;
    const [sx, sy] = this.pixels;
    context.drawImage(this.bitmap, 0, 0, this.surface.width, this.surface.height);
    const left = Math.max(0.5, window.x * sx);
    const top = Math.max(0.5, window.y * sy);
    const right = Math.min(this.surface.width - 0.5, (window.x + window.width) * sx);
    const bottom = Math.min(this.surface.height - 0.5, (window.y + window.height) * sy);
    context.globalAlpha = 0.12;
    context.fillStyle = look.theme.accent;
    context.fillRect(left, top, right - left, bottom - top);
    context.globalAlpha = 1;
    context.strokeStyle = look.theme.accent;
    context.lineWidth = 1.5;
    context.strokeRect(left, top, right - left, bottom - top);
  }

  /**
   * Goes to a corner where it hides no box and no title, or becomes small; it stays where it is once somebody has moved
   * the drawing.
   */
  private place(scene: Scene, window: Window): void {
    const hides = (corner: string, size: number): boolean => {
      const [width, height] = this.size();
      const [wide, high] = [size * this.root.offsetWidth, size * this.root.offsetHeight];
      const x = window.x + (corner.startsWith("left") ? EDGE : width - EDGE - wide) / window.scale;
      const y = window.y + (corner.endsWith("top") ? EDGE : height - EDGE - high) / window.scale;
      const { rects, items, frameCount } = scene;
      const [right, bottom] = [x + wide / window.scale, y + high / window.scale];
      for (let k = 0, r = 0; k < items.length; k++, r += 4) {
        const below = k < frameCount ? HEADER : rects[r + 3];
        if (rects[r] < right && rects[r] + rects[r + 2] > x && rects[r + 1] < bottom && rects[r + 1] + below > y) return true;
      }
      return false;
    };
    if (this.view.untouched) {
      const large = CORNERS.find((corner) => !hides(corner, 1));
      this.corner = large ?? CORNERS.find((corner) => !hides(corner, SMALL)) ?? CORNERS[0];
      this.small = large === undefined;
    } else this.small ||= hides(this.corner, 1);
    this.root.dataset.corner = this.root.style.transformOrigin = this.corner;
    this.root.toggleAttribute("data-small", this.small);
  }

  /** Long drawings are squeezed, so that the map is neither a thread nor larger than its corner. */
  private render(painter: Painter, look: Look): void {
    const { width, height } = painter.scene;
    const widest = Math.min(WIDEST, 0.22 * this.size()[0]);
    const scale = Math.min(widest / width, HIGHEST / height, 0.25);
    const shown = [Math.max(NARROWEST, width * scale), Math.max(NARROWEST, height * scale)].map(Math.round);
    this.root.style.width = `${shown[0] + 2}px`; // with the border
    this.root.style.height = `${shown[1] + 2}px`;
    this.pixels = [shown[0] / width, shown[1] / height];
    const ratio = window.devicePixelRatio || 1;
    this.bitmap.width = shown[0] * ratio;
    this.bitmap.height = shown[1] * ratio;
    const context = this.bitmap.getContext("2d")!;
    context.scale(this.pixels[0] * ratio, this.pixels[1] * ratio);
    painter.overview(context, look);
    this.stale = false;
  }

  dispose(): void {
    this.surface.dispose();
  }
}
