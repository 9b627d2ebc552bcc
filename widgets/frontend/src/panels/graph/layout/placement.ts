// From blocks with places of their own to one scene on the plane: frames, boxes, lines, and what ties the layers together.

import { HEADER, type Block, type Part } from "./parts";
import { UPDATE } from "../model/layers";
import type { GraphModel } from "../model/model";
import { linesOfPart } from "./part_lines";
import { PieceFlag, type Scene } from "./scene";

export class Placement {
  private readonly items: number[] = [];
  private readonly rects: number[] = [];
  private readonly pieces: number[] = [];
  private readonly flags: number[] = [];
  private readonly from: number[] = [];
  private readonly to: number[] = [];
  private readonly tensor: number[] = [];
  private readonly weight: number[] = [];
  private readonly side: number[] = [];
  private joints = 0;
  private readonly jointBase = new Map<Part, number>();

  constructor(
    private readonly model: GraphModel,
    private readonly blocks: Map<number, Block>,
    private readonly open: Set<number>,
  ) {}

  scene(open: number[]): Scene {
    const { model } = this;
    const origin = new Map<number, [number, number]>([[0, [0, 0]]]);
    const boxes: [number, number, number, number, number][] = [];
    const placed: [Part, number, number][] = [];
    for (const scope of open) {
      const block = this.blocks.get(scope)!;
      const [ox, oy] = origin.get(scope)!;
      if (scope) this.put(model.n + scope, ox, oy, block.width, block.height);
      for (const part of block.parts) {
        this.jointBase.set(part, this.joints);
        this.joints += part.skeleton.vertexCount;
        placed.push([part, ox + part.left, oy]);
        part.skeleton.level.items.forEach((item, v) => {
          const left = ox + part.left + part.x[v] - part.w[v] / 2;
          const top = oy + part.y[v] - part.h[v] / 2;
          if (part.inner[v]) origin.set(item - model.n, [left, top]);
          else boxes.push([item, left, top, part.w[v], part.h[v]]);
        });
      }
    }
    const frameCount = this.items.length;
    for (const box of boxes) this.put(...box);
    const place = new Map(this.items.map((item, k) => [item, k]));
    for (const [part] of placed) this.hairlines(part, place);
    this.links(place, frameCount);
    for (const [part, ox, oy] of placed) this.draw(part, ox, oy);
    const root = this.blocks.get(0)!;
    return {
      width: root.width,
      height: root.height,
      anchor: anchorOf(root),
      frameCount,
      items: Int32Array.from(this.items),
      rects: Float32Array.from(this.rects),
      pieces: Float32Array.from(this.pieces),
      pieceFlags: Uint16Array.from(this.flags),
      pieceFrom: Int32Array.from(this.from),
      pieceTo: Int32Array.from(this.to),
      pieceTensor: Int32Array.from(this.tensor),
      pieceWeight: Int32Array.from(this.weight),
      pieceSide: Float32Array.from(this.side),
    };
  }

  private put(item: number, x: number, y: number, width: number, height: number): void {
    this.items.push(item);
    this.rects.push(x, y, width, height);
  }

  private add(flag: number, from: number, to: number, tensor: number, weight: number, ...points: [number, number, number, number, number, number]): void {
    this.pieces.push(...points);
    this.flags.push(flag);
    this.from.push(from);
    this.to.push(to);
    this.tensor.push(tensor);
    this.weight.push(weight);
    this.side.push(NaN);
  }

  /** From every item to its gradient; past other columns only where it is asked for. */
  private hairlines({ skeleton, shift, columns }: Part, place: Map<number, number>): void {
    if (!shift) return;
    skeleton.level.items.forEach((twin, v) => {
      const item = this.model.scopes[twin - this.model.n].of;
      const [a, b] = [place.get(item)!, place.get(twin)!];
      const frame = item >= this.model.n && this.open.has(item - this.model.n);
      const [x, y, w, h] = this.rects.slice(4 * a, 4 * a + 4);
      const at = frame ? y + HEADER / 2 : y + h / 2 + shift[v];
      this.add(PieceFlag.Pair | (columns ? PieceFlag.Quiet : 0), item, twin, 0, 0, x + w, at, at, this.rects[4 * b], at, at);
    });
  }

  /**
   * What runs from one layer to another: one link for any two items. A closed gradient needs none from the forward
   * nodes: it uses the inputs and results of its own node, and the hairline says so.
   */
  private links(place: Map<number, number>, frameCount: number): void {
    const { edgeTensor, edgeTarget, nodeOf, layer, n } = this.model;
    const seen = new Set<number>();
    for (let e = 0; e < edgeTarget.length; e++) {
      const source = nodeOf[edgeTensor[e]];
      const target = edgeTarget[e];
      if (layer[source] === layer[target] && layer[source] < 2) continue;
      const [from, to] = [this.shown(source), this.shown(target)];
      const key = from * this.items.length * 2 + to;
      if (from === to || seen.has(key) || (layer[target] === layer[source] && this.sameHost(source, target))) continue;
      seen.add(key);
      if (layer[source] >= 0 && layer[source] < layer[target] && to >= n) continue;
      const [a, b] = [place.get(from), place.get(to)];
      if (a === undefined || b === undefined || a < frameCount || b < frameCount) continue;
      const [ax, ay, aw, ah] = this.rects.slice(4 * a, 4 * a + 4);
      const [bx, by, bw, bh] = this.rects.slice(4 * b, 4 * b + 4);
      const rightwards = ax + aw / 2 < bx + bw / 2;
      const [ya, yb] = [ay + ah / 2, by + bh / 2];
      // Every update reads the parameter that it moves.
      const quiet = layer[source] === 0 && layer[target] === UPDATE ? PieceFlag.Quiet : 0;
      this.add(PieceFlag.Link | quiet, from, to, edgeTensor[e], 1, rightwards ? ax + aw : ax, ya, ya, rightwards ? bx : bx + bw, yb, yb);
    }
  }

  /** Whether two gradients of the same order lie in one lane, which draws the line between them. */
  private sameHost(a: number, b: number): boolean {
    const { origin, scopeOf, layer } = this.model;
    return layer[a] < 0 || scopeOf[a] === scopeOf[b] || scopeOf[origin[a]] === scopeOf[origin[b]];
  }

  /** The item that a node is part of on the screen: itself, or the outermost closed scope around it. */
  private shown(node: number): number {
    const { scopes, scopeOf, n } = this.model;
    let item = node;
    for (let s = scopeOf[node]; s > 0; s = scopes[s].parent) if (!this.open.has(s)) item = n + s;
    return item;
  }

  private draw(part: Part, ox: number, oy: number): void {
    let turn = 0;
    linesOfPart(this.model, part, ({ upper, lower, tensor, weight, flag, points: [x0, y0, y1, x1, y2, y3], side, half }) => {
      const from = half === 2 ? turn : this.joint(part, upper, (block) => block.outPort.get(tensor));
      const to = half === 1 ? (turn = -1 - this.joints++) : this.joint(part, lower, (block) => block.inPort.get(tensor));
      this.add(flag, from, to, tensor, weight, ox + x0, oy + y0, oy + y1, ox + x1, oy + y2, oy + y3);
      if (side !== undefined) this.side[this.side.length - 1] = ox + side;
    });
  }

  /** The name of a line's end: an item, or a negative number for a bend or for the port of an open scope. */
  private joint(part: Part, v: number, portOf: (block: Block) => { vertex: number; part: Part } | undefined): number {
    const { items } = part.skeleton.level;
    if (v >= items.length) return -1 - (this.jointBase.get(part)! + v);
    const block = part.inner[v];
    const port = block && portOf(block);
    return port ? -1 - (this.jointBase.get(port.part)! + port.vertex) : items[v];
  }
}

function anchorOf({ parts: [{ skeleton, left, x, y, h }], width }: Block): [number, number] {
  const { level, spine, rank } = skeleton;
  let first = -1;
  for (let v = 0; v < level.items.length; v++) if (spine && spine.entry[v] >= 0 && (first < 0 || rank[v] < rank[first])) first = v;
  return first < 0 ? [width / 2, 0] : [left + x[first], y[first] - h[first] / 2];
}
