// What of a drawing is brought into sight: all of it, its top, or one item, now or once it has been laid out. Items go by
// their names here, since opening a node numbers them anew.

import type { Drawing } from "./drawing";
import type { GraphModel } from "../model/model";
import type { Viewport } from "./viewport";
import type { Surface } from "../../../core/dom";

/** Windows narrower and wider than these are drawn for as if they were not. */
const NARROW_WIDE = [0.6, 2.4];

export class Sight {
  private drawing: Drawing | undefined;
  private kept: readonly number[] | undefined;
  private heading: { name: string; middle: boolean } | undefined;

  constructor(private readonly graph: GraphModel, private readonly view: Viewport, private readonly surface: Surface, private readonly moved: () => void) {}

  /**
   * Takes over a new drawing. What was at `before` and is now at `after` stays there if it is what the pointer is on, or if
   * somebody has moved the drawing; else it begins anew at `name`.
   */
  enter(drawing: Drawing, before: number[] | undefined, after: number[] | undefined, name: string, pointed: boolean): void {
    this.drawing = drawing;
    if (this.view.untouched && !(pointed && before && after)) this.settle(name);
    else if (before && after) {
      this.view.x += after[0] - before[0];
      this.view.y += after[1] - before[1];
      // What is closed shrinks to its beginning, which may be out of sight.
      const { x, y, width, height } = this.view.window(this.surface.width, this.surface.height);
      const [left, top, w, h] = after;
      if (pointed && (top + h < y || top > y + height || left + w < x || left > x + width)) {
        this.view.reveal(left, top, w, h, this.surface.width, this.surface.height);
      }
    }
    this.arrive();
  }

  /** Width to height of the window, within reason; undefined while it is not shown. */
  get aspect(): number | undefined {
    const { width, height } = this.surface;
    return width && height ? Math.min(NARROW_WIDE[1], Math.max(NARROW_WIDE[0], width / height)) : undefined;
  }

  /** Brings an item to the middle, or just into sight: with the next drawing if that is under way. */
  head(name: string, middle: boolean, soon: boolean): void {
    this.heading = { name, middle };
    if (!soon) this.arrive();
  }

  show(name: string, middle = false): void {
    const item = this.graph.itemOf(name);
    const place = item < 0 ? undefined : this.drawing?.rect(this.drawing.standIn(item));
    if (!place) return;
    this.view.show(...place, this.surface.width, this.surface.height, middle);
    this.moved();
  }

  /** Moves no more than is needed to see an item that is pointed at. */
  reveal(item: number): void {
    const place = this.drawing?.rect(item);
    if (place) this.view.reveal(...place, this.surface.width, this.surface.height);
  }

  /** Takes the window to a place that was kept: x, y and scale; after the next drawing if that is under way. */
  recall(place: readonly number[], soon: boolean): void {
    if (place.length !== 3) return;
    this.kept = place;
    if (!soon) this.arrive();
  }

  fit(): void {
    if (!this.drawing) return;
    this.view.fit(this.drawing.scene, this.surface.width, this.surface.height, false);
    this.moved();
  }

  /** Where a drawing begins that nobody has moved: all of it or its beginning, as was seen before, and an item in sight. */
  settle(name: string): void {
    if (!this.drawing || !this.view.untouched) return;
    this.view.fit(this.drawing.scene, this.surface.width, this.surface.height, !this.view.whole);
    this.show(name);
  }

  private arrive(): void {
    if (this.heading) this.show(this.heading.name, this.heading.middle);
    this.heading = undefined;
    if (!this.kept) return;
    [this.view.x, this.view.y, this.view.scale] = this.kept;
    this.kept = undefined;
    this.view.untouched = false;
    this.moved();
  }
}
