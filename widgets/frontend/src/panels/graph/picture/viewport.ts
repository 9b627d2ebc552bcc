// Which part of the plane is on the screen. The drawing takes the pointer and the wheel only in ways that do not
// get between a reader and the page: the wheel zooms once the drawing has the focus, or with Ctrl held.

import type { Window } from "./look";
import type { Scene } from "../layout/scene";

const CLOSEST = 3;
const FAR = 0.02; // or half of what shows the whole drawing
const MARGIN = 24;
/** A drawing that would have to be smaller than the first to fit begins where its reading does instead, as wide as fits up to the second. */
const SMALLEST = 0.66;
const READABLE = 0.9;

export class Viewport {
  x = 0;
  y = 0;
  scale = 1;
  private farthest = FAR;
  /** All of the drawing was asked for last, so that is what stays when the window changes. */
  whole = false;
  /** Nobody has moved the drawing yet, so it may be fitted again when it changes. */
  untouched = true;

  window(width: number, height: number): Window {
    return { x: this.x, y: this.y, width: width / this.scale, height: height / this.scale, scale: this.scale };
  }

  toPlane(x: number, y: number): [number, number] {
    return [this.x + x / this.scale, this.y + y / this.scale];
  }

  pan(dx: number, dy: number): void {
    this.untouched = false;
    this.x -= dx / this.scale;
    this.y -= dy / this.scale;
  }

  /** Zooms and keeps the point of the plane under (x, y) in place. */
  zoom(factor: number, x: number, y: number): void {
    this.untouched = false;
    const [px, py] = this.toPlane(x, y);
    this.scale = Math.min(CLOSEST, Math.max(this.farthest, this.scale * factor));
    this.x = px - x / this.scale;
    this.y = py - y / this.scale;
  }

  /**
   * Shows all of a drawing, in the middle. If a readable size is asked for and all of it would be smaller, shows where
   * reading begins: from the left edge if that is in sight with it, else with it in the middle.
   */
  fit({ width: w, height: h, anchor }: Pick<Scene, "width" | "height" | "anchor">, width: number, height: number, readable: boolean): void {
    const across = (width - 2 * MARGIN) / w;
    const whole = Math.min(1, across, (height - 2 * MARGIN) / h);
    const begin = readable && whole < SMALLEST;
    this.farthest = Math.min(FAR, whole / 2);
    this.scale = begin ? Math.min(READABLE, Math.max(SMALLEST, across)) : whole;
    const margin = MARGIN / this.scale;
    const along = (size: number, room: number, from: number): number =>
      size + 2 * margin <= room ? (size - room) / 2 : Math.min(Math.max(from - margin, -margin), size + margin - room);
    const room = width / this.scale;
    this.x = along(w, room, anchor[0] < 0.7 * room ? 0 : anchor[0] - room / 2);
    this.y = along(h, height / this.scale, anchor[1]);
    this.untouched = true;
    this.whole = !readable;
  }

  /** Brings a point of the plane to the middle of the screen. */
  center(x: number, y: number, width: number, height: number): void {
    this.untouched = false;
    this.x = x - width / 2 / this.scale;
    this.y = y - height / 2 / this.scale;
  }

  /** Brings a rectangle to the middle, large enough to be read; of a tall one, its top. */
  show(x: number, y: number, w: number, h: number, width: number, height: number, middle: boolean): void {
    if (!middle) {
      this.reveal(x, y, w, h, width, height);
      return;
    }
    this.scale = Math.max(this.scale, SMALLEST);
    this.center(x + w / 2, y + Math.min(h / 2, height / 2 / this.scale - MARGIN), width, height);
  }

  /** Moves as little as needed to bring a rectangle on the screen. */
  reveal(x: number, y: number, w: number, h: number, width: number, height: number): void {
    const view = this.window(width, height);
    const margin = MARGIN / this.scale;
    const nearest = (low: number, size: number, start: number, room: number): number => {
      if (low < start + margin) return low - margin;
      if (low + size > start + room - margin) return Math.min(low - margin, low + size + margin - room);
      return start;
    };
    this.x = nearest(x, w, view.x, view.width);
    this.y = nearest(y, h, view.y, view.height);
  }
}
