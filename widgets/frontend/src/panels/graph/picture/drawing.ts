// What one layout gives to the panel: the painter of its scene, where items are, how its lines run, and what lies at a
// point of the plane.

import { FIRST } from "../model/card_face";
import { OPENER, SWITCH } from "../model/describe";
import { HEADER } from "../layout/parts";
import { drawnFor } from "./marks";
import type { GraphModel } from "../model/model";
import { Painter } from "./paint";
import { hit, placesOf, type Scene } from "../layout/scene";
import { TOGGLE } from "./shapes";
import type { Rect } from "./tip";
import { outputsOf } from "../model/trace";
import type { AdapterSpec } from "../model/wire";
import type { Viewport } from "./viewport";
import { Wires } from "./wires";

const NONE = -1;

/** What is at a point: a piece of line, or an item and whether the point is on its open/close button. */
export interface Spot {
  item: number;
  toggle: boolean;
  line: number;
  /** The adapter whose switch is there. */
  adapter?: AdapterSpec;
}

export class Drawing {
  readonly painter: Painter;
  readonly places: Map<number, number>;
  readonly wires: Wires;

  constructor(private readonly graph: GraphModel, readonly scene: Scene) {
    this.painter = new Painter(graph, scene);
    this.places = placesOf(scene);
    this.wires = new Wires(scene);
  }

  readonly isDrawn = (item: number): boolean => this.places.has(item);

  /** x, y, width and height of an item, if it is drawn. */
  rect(item: number): [number, number, number, number] | undefined {
    const k = this.places.get(item);
    if (k === undefined) return undefined;
    const { rects } = this.scene;
    return [rects[4 * k], rects[4 * k + 1], rects[4 * k + 2], rects[4 * k + 3]];
  }

  /** The item that stands for this one: itself, or the closed scope that holds it. */
  standIn(item: number): number {
    return drawnFor(this.graph, this.isDrawn, item);
  }

  /** Boxes come before lines, lines before the inside of open scopes, and title bars before lines. */
  at(x: number, y: number, distance: number): Spot {
    const { scene } = this;
    const k = hit(scene, x, y);
    const frame = k >= 0 && k < scene.frameCount;
    const [left, top, width, height] = k < 0 ? [0, 0, 0, 0] : scene.rects.subarray(4 * k, 4 * k + 4);
    const line = k < 0 || (frame && y > top + HEADER) ? this.wires.at(x, y, distance) : NONE;
    if (k < 0 || line !== NONE) return { item: NONE, toggle: false, line };
    const item = scene.items[k];
    const { shape, adapter } = this.painter.face(item);
    const middle = frame ? top + HEADER / 2 : shape === "card" ? top + FIRST : top + height / 2;
    const atRight = !frame && (shape === "op" || shape === "card");
    const near = atRight ? x > left + width - OPENER - 8 : x < left + TOGGLE + 16;
    const toggle = this.graph.opens(item) && near && Math.abs(y - middle) <= TOGGLE / 2 + 4;
    const flips = adapter && x > left + width - SWITCH && Math.abs(y - middle) <= TOGGLE / 2 + 2;
    return { item, toggle, line, ...(flips ? { adapter } : {}) };
  }

  /** An item, or the point of the pointer where there is none, and the other boxes, as they lie on the screen. */
  around(item: number, [x, y]: [number, number], { x: left, y: top, scale }: Pick<Viewport, "x" | "y" | "scale">): { thing: Rect; others: Rect[] } {
    const { rects, items, frameCount } = this.scene;
    const onScreen = (k: number): Rect => [(rects[4 * k] - left) * scale, (rects[4 * k + 1] - top) * scale, rects[4 * k + 2] * scale, rects[4 * k + 3] * scale];
    const own = this.places.get(item);
    const others: Rect[] = [];
    for (let k = frameCount; k < items.length; k++) if (k !== own) others.push(onScreen(k));
    return { thing: own === undefined ? [x - 6, y - 6, 12, 12] : onScreen(own), others };
  }

  /** Nodes at the ends of a line where it carries one tensor, otherwise the items it joins. */
  ends(line: number): { from: number[]; to: number[] } {
    const { from, to } = this.wires.route(line);
    if (this.scene.pieceWeight[line] > 1) return { from, to };
    const producer = this.graph.nodeOf[this.scene.pieceTensor[line]];
    const readers = outputsOf(this.graph, producer).filter((node) => to.includes(this.standIn(node)));
    return { from: [producer], to: readers.length ? readers : to };
  }
}
