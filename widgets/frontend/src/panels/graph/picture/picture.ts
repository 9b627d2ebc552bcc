// The drawing on its canvas. With thousands of boxes in sight, painting takes longer than a frame: while such a drawing
// moves, what was painted last is shown in its new place, over a coarse picture of the whole, and it is painted anew once
// it rests.

import type { Look, Window } from "./look";
import type { Painter } from "./paint";
import { CanvasPen } from "./pen";
import type { Surface } from "../../../core/dom";

/** So many boxes are painted within half a frame: in Chromium without a GPU 10,000 small ones take 15 ms. */
const MANY = 4000;
const REST = 120; // ms without a movement
const COARSE = 1600; // px, the longer side of the picture of the whole

export class Picture {
  private readonly last = document.createElement("canvas");
  private lastView: Window | undefined;
  private readonly whole = document.createElement("canvas");
  private wholeOf: Painter | undefined;
  private rests = false;
  private timer: ReturnType<typeof setTimeout> | 0 = 0;

  constructor(private readonly surface: Surface, private readonly request: () => void) {}

  paint(painter: Painter, view: Window, look: Look): void {
    if (!this.surface.begin()) return;
    const { context, ratio } = this.surface;
    const scale = view.scale * ratio;
    this.surface.canvas.removeAttribute("data-moving");
    context.setTransform(scale, 0, 0, scale, -view.x * scale, -view.y * scale);
    if (painter.countIn(view, MANY) < MANY) {
      this.lastView = undefined;
      this.rests = false;
      painter.paint(new CanvasPen(context, look.theme.font), view, look);
    } else if (this.rests || this.wholeOf !== painter) this.keep(painter, view, look);
    else this.move(painter, view);
  }

  /** Colours have changed. */
  invalidate(): void {
    this.wholeOf = undefined;
  }

  dispose(): void {
    clearTimeout(this.timer);
  }

  private keep(painter: Painter, view: Window, look: Look): void {
    const { canvas, context } = this.surface;
    this.rests = false;
    clearTimeout(this.timer);
    painter.paint(new CanvasPen(context, look.theme.font), view, look);
    this.last.width = canvas.width;
    this.last.height = canvas.height;
    this.last.getContext("2d")!.drawImage(canvas, 0, 0);
    this.lastView = view;
    if (this.wholeOf === painter) return;
    const { width, height } = painter.scene;
    const scale = COARSE / Math.max(width, height);
    this.whole.width = Math.ceil(width * scale);
    this.whole.height = Math.ceil(height * scale);
    const coarse = this.whole.getContext("2d")!;
    coarse.scale(scale, scale);
    painter.overview(coarse, look);
    this.wholeOf = painter;
  }

  private move({ scene }: Painter, view: Window): void {
    const { canvas, context } = this.surface;
    canvas.setAttribute("data-moving", "");
    context.drawImage(this.whole, 0, 0, scene.width, scene.height);
    if (this.lastView && this.lastView.scale < 2.5 * view.scale) {
      const { x, y, width, height } = this.lastView;
      context.clearRect(x, y, width, height);
      context.drawImage(this.last, x, y, width, height);
    }
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.rests = true;
      this.request();
    }, REST);
  }
}
