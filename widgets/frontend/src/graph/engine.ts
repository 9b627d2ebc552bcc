// From the graph and the set of open scopes to a scene: levels are laid out from the inside out and then placed
// from the outside in. Rows and orders are kept for good, finished frames as long as nothing inside them changes,
// so opening a scope costs that scope and a new placement of its ancestors.

import { placeHorizontally } from "./coordinates";
import { describe, itemSize, type Face } from "./describe";
import { buildLevel, signature } from "./level";
import type { GraphModel } from "./model";
import { orderRows, type Ordering } from "./order";
import { PieceFlag, type Scene } from "./scene";
import { buildSkeleton, type Skeleton } from "./skeleton";

const GAP_X = 24;
const GAP_BEND = 12;
const GAP_Y = 30;
const PADDING = 16;
export const HEADER = 28;
const PORT_STEP = 14;
const SEVERAL = -2;

interface Frame {
  skeleton: Skeleton;
  /** Frames of the open children at the time of layout, by vertex. */
  inner: (Frame | undefined)[];
  width: number;
  height: number;
  /** Centre and size of each vertex inside the frame. */
  x: Float64Array;
  y: Float64Array;
  w: Float64Array;
  h: Float64Array;
  rowTop: Float64Array;
  rowBottom: Float64Array;
  /** Distance from the frame's left edge of the port through which a tensor comes in or goes out. */
  inPort: Map<number, { x: number; vertex: number }>;
  outPort: Map<number, { x: number; vertex: number }>;
}

interface Drawn {
  skeleton: Skeleton;
  ordering: Ordering;
}

export class LayoutEngine {
  private readonly skeletons = new Map<number, Drawn>();
  private readonly structures = new Map<string, Drawn>();
  private readonly frames = new Map<number, Frame>();
  private readonly faces = new Map<number, Face>();

  constructor(private readonly model: GraphModel) {}

  layout(openScopes: Iterable<number>): Scene {
    const open = this.reachable(openScopes);
    const isOpen = new Set(open);
    for (const scope of open) this.skeletonOf(scope);
    for (let k = open.length - 1; k >= 0; k--) this.frame(open[k], isOpen);
    return new Placement(this.model, this.frames).scene(open);
  }

  /** Open scopes whose ancestors are all open, outermost first, the root included. */
  private reachable(openScopes: Iterable<number>): number[] {
    const wanted = new Set(openScopes);
    const open = [0];
    for (let k = 0; k < open.length; k++) {
      for (const s of this.model.scopes[open[k]].scopes) if (wanted.has(s)) open.push(s);
    }
    return open;
  }

  /** Scopes of the same structure, such as the blocks of a transformer, are drawn alike and computed once. */
  private skeletonOf(scope: number): Drawn {
    let known = this.skeletons.get(scope);
    if (!known) {
      const level = buildLevel(this.model, scope, (tensors) => this.arrival(scope, tensors));
      const key = signature(level);
      const alike = this.structures.get(key);
      if (alike) known = { skeleton: { ...alike.skeleton, level }, ordering: alike.ordering };
      else {
        const skeleton = buildSkeleton(level);
        known = { skeleton, ordering: orderRows(skeleton) };
        this.structures.set(key, known);
      }
      this.skeletons.set(scope, known);
    }
    return known;
  }

  /** How far to the left tensors reach a scope in the level around it, which is known by then. */
  private arrival(scope: number, tensors: number[]): number {
    const around = this.skeletons.get(this.model.scopes[scope].parent);
    if (!around) return 0;
    const { level, segments } = around.skeleton;
    const vertex = level.items.indexOf(this.model.n + scope);
    let place = 0;
    for (let s = 0; s < segments.count; s++) {
      const here = segments.lower[s] === vertex && level.nets[segments.net[s]].tensors.includes(tensors[0]);
      if (here) place = around.ordering.position[segments.upper[s]];
    }
    return place;
  }

  private face(item: number): Face {
    let face = this.faces.get(item);
    if (!face) this.faces.set(item, (face = describe(this.model, item)));
    return face;
  }

  private frame(scope: number, open: Set<number>): void {
    const { skeleton, ordering } = this.skeletonOf(scope);
    const { items } = skeleton.level;
    const { n } = this.model;
    const inner = items.map((item) => (item >= n && open.has(item - n) ? this.frames.get(item - n) : undefined));
    const before = this.frames.get(scope);
    if (before && before.inner.every((frame, k) => frame === inner[k])) return;
    this.frames.set(scope, this.arrange(skeleton, ordering, inner));
  }

  private arrange(skeleton: Skeleton, ordering: Ordering, inner: (Frame | undefined)[]): Frame {
    const { level, vertexCount, realCount, segments, rank, rankCount } = skeleton;
    const itemCount = level.items.length;
    const w = new Float64Array(vertexCount);
    const h = new Float64Array(vertexCount);
    const half = new Float64Array(vertexCount);
    for (let v = 0; v < vertexCount; v++) {
      if (v < itemCount) {
        const frame = inner[v];
        const size = frame ?? itemSize(this.face(level.items[v]));
        w[v] = size.width;
        h[v] = size.height;
      }
      half[v] = (w[v] + (v < itemCount ? GAP_X : GAP_BEND)) / 2;
    }

    const frame: Frame = {
      skeleton, inner, w, h, width: 0, height: 0,
      x: new Float64Array(0), y: new Float64Array(vertexCount),
      rowTop: new Float64Array(rankCount), rowBottom: new Float64Array(rankCount),
      inPort: new Map(), outPort: new Map(),
    };
    const upperOffset = new Float64Array(segments.count);
    const lowerOffset = new Float64Array(segments.count);
    for (let s = 0; s < segments.count; s++) {
      const pairs = routes(this.model, frame, segments.upper[s], segments.lower[s], segments.net[s], segments.lowerSlot[s]);
      for (const { start, stop } of pairs) {
        upperOffset[s] += start / pairs.length;
        lowerOffset[s] += stop / pairs.length;
      }
    }
    const x = placeHorizontally(skeleton, ordering, { half, upperOffset, lowerOffset });
    frame.x = x;

    // Frame the result: the leftmost edge goes to the padding, the header stays readable.
    let left = Infinity;
    let right = -Infinity;
    for (let v = 0; v < vertexCount; v++) {
      left = Math.min(left, x[v] - w[v] / 2);
      right = Math.max(right, x[v] + w[v] / 2);
    }
    if (!vertexCount) left = right = 0;
    const root = level.scope === 0;
    const pad = root ? 0 : PADDING;
    const minimum = root ? 0 : itemSize(this.face(this.model.n + level.scope)).width + 24;
    frame.width = Math.max(minimum, right - left + 2 * pad);
    const dx = (frame.width - (right - left)) / 2 - left;
    for (let v = 0; v < vertexCount; v++) x[v] += dx;

    this.stackRows(frame, rank, root ? 0 : HEADER + PADDING / 2);
    frame.height = (rankCount ? frame.rowBottom[rankCount - 1] : 0) + (root ? 0 : level.outPorts.length ? 0 : PADDING);
    if (level.outPorts.length) frame.rowBottom[rankCount - 1] = frame.height;
    level.inPorts.forEach((tensors, k) => {
      const vertex = itemCount + k;
      frame.y[vertex] = 0;
      for (const t of tensors) frame.inPort.set(t, { x: x[vertex], vertex });
    });
    level.outPorts.forEach((tensors, k) => {
      const vertex = realCount - level.outPorts.length + k;
      frame.y[vertex] = frame.height;
      for (const t of tensors) frame.outPort.set(t, { x: x[vertex], vertex });
    });
    return frame;
  }

  /** Rows from top to bottom; the gap between two rows grows with the longest sideways run that has to fit in it. */
  private stackRows(frame: Frame, rank: Int32Array, top: number): void {
    const { x, y, h, rowTop, rowBottom, skeleton } = frame;
    const { segments, rankCount, floating } = skeleton;
    const height = new Float64Array(rankCount);
    for (let v = 0; v < rank.length; v++) height[rank[v]] = Math.max(height[rank[v]], h[v]);
    const sideways = new Float64Array(rankCount);
    for (let s = 0; s < segments.count; s++) {
      const r = rank[segments.upper[s]];
      sideways[r] = Math.max(sideways[r], Math.abs(x[segments.upper[s]] - x[segments.lower[s]]));
    }
    let at = top;
    for (let r = 0; r < rankCount; r++) {
      rowTop[r] = at;
      rowBottom[r] = at + height[r];
      const slim = height[r] === 0 || (r + 1 < rankCount && height[r + 1] === 0);
      at = rowBottom[r] + Math.min(72, (slim ? 0.6 : 1) * GAP_Y + sideways[r] / 16);
    }
    // Parameters hang on to the row below; everything else to the row above.
    for (let v = 0; v < rank.length; v++) {
      const r = rank[v];
      y[v] = v < skeleton.realCount && floating[v] ? rowBottom[r] - h[v] / 2 : rowTop[r] + h[v] / 2;
    }
  }
}

interface Route {
  tensor: number;
  weight: number;
  /** Distances from the centres of the two vertices. */
  start: number;
  stop: number;
}

/** The distinct lines of a net between two vertices: one, unless its tensors use different ports of an open scope. */
function routes(model: GraphModel, frame: Frame, upper: number, lower: number, net: number, position: number): Route[] {
  const { level } = frame.skeleton;
  const { tensors } = level.nets[net];
  const many = frame.inner[upper] || frame.inner[lower];
  const lowerItem = level.items[lower];
  const into = lower < level.items.length && lowerItem < model.n ? argumentOffset(model, lowerItem, position, frame.w[lower]) : 0;
  if (!many) return [{ tensor: tensors[0], weight: tensors.length, start: 0, stop: into }];
  const found = new Map<string, Route>();
  for (const tensor of tensors) {
    const start = portOffset(frame.inner[upper]?.outPort, frame.w[upper], tensor);
    const stop = frame.inner[lower] ? portOffset(frame.inner[lower].inPort, frame.w[lower], tensor) : into;
    const key = `${start} ${stop}`;
    const known = found.get(key);
    if (known) known.weight++;
    else found.set(key, { tensor, weight: 1, start, stop });
  }
  return [...found.values()];
}

function portOffset(ports: Frame["inPort"] | undefined, width: number, tensor: number): number {
  const port = ports?.get(tensor);
  return port ? port.x - width / 2 : 0;
}

/**
 * Arguments arrive side by side in their order. If only one of them is computed, it arrives in the middle and the
 * parameters beside it, so that the main line of a network runs straight down.
 */
function argumentOffset(model: GraphModel, node: number, position: number, width: number): number {
  const seen = new Set<number>(); // the same tensor twice is one line
  let own = 0;
  let main = -1;
  for (let e = model.firstInput[node]; e < model.firstInput[node + 1]; e++) {
    const tensor = model.edgeTensor[e];
    if (seen.has(tensor)) continue;
    const kind = model.kindOf(model.nodeOf[tensor]);
    const computed = kind !== "variable" && kind !== "constant";
    if (model.edgePosition[e] === position) own = seen.size;
    if (computed) main = main === -1 ? seen.size : SEVERAL;
    seen.add(tensor);
  }
  const step = Math.min(PORT_STEP, (0.7 * width) / seen.size);
  return (own - (main >= 0 ? main : (seen.size - 1) / 2)) * step;
}

/** Turns frames into absolute places. */
class Placement {
  private readonly items: number[] = [];
  private readonly rects: number[] = [];
  private readonly pieces: number[] = [];
  private readonly flags: number[] = [];
  private readonly from: number[] = [];
  private readonly to: number[] = [];
  private readonly tensor: number[] = [];
  private readonly weight: number[] = [];
  private joints = 0;
  private readonly jointBase = new Map<number, number>();

  constructor(
    private readonly model: GraphModel,
    private readonly frames: Map<number, Frame>,
  ) {}

  scene(open: number[]): Scene {
    const origin = new Map<number, [number, number]>([[0, [0, 0]]]);
    for (const scope of open) {
      this.jointBase.set(scope, this.joints);
      this.joints += this.frames.get(scope)!.skeleton.vertexCount;
    }
    const boxes: [number, number, number, number, number][] = [];
    for (const scope of open) {
      const frame = this.frames.get(scope)!;
      const [ox, oy] = origin.get(scope)!;
      if (scope) this.put(this.model.n + scope, ox, oy, frame.width, frame.height);
      frame.skeleton.level.items.forEach((item, v) => {
        const left = ox + frame.x[v] - frame.w[v] / 2;
        const top = oy + frame.y[v] - frame.h[v] / 2;
        if (frame.inner[v]) origin.set(item - this.model.n, [left, top]);
        else boxes.push([item, left, top, frame.w[v], frame.h[v]]);
      });
      this.draw(scope, frame, ox, oy);
    }
    const frameCount = this.items.length;
    for (const box of boxes) this.put(...box);
    const rootFrame = this.frames.get(0)!;
    return {
      width: rootFrame.width,
      height: rootFrame.height,
      frameCount,
      items: Int32Array.from(this.items),
      rects: Float32Array.from(this.rects),
      pieces: Float32Array.from(this.pieces),
      pieceFlags: Uint8Array.from(this.flags),
      pieceFrom: Int32Array.from(this.from),
      pieceTo: Int32Array.from(this.to),
      pieceTensor: Int32Array.from(this.tensor),
      pieceWeight: Int32Array.from(this.weight),
    };
  }

  private put(item: number, x: number, y: number, width: number, height: number): void {
    this.items.push(item);
    this.rects.push(x, y, width, height);
  }

  private draw(scope: number, frame: Frame, ox: number, oy: number): void {
    const { skeleton, rowTop, rowBottom } = frame;
    const { level, segments, rank } = skeleton;
    const piece = (upper: number, lower: number, net: number, position: number, flag: number): void => {
      const y0 = frame.y[upper] + frame.h[upper] / 2;
      const y3 = frame.y[lower] - frame.h[lower] / 2;
      const upwards = flag === PieceFlag.Feedback;
      const y1 = upwards ? y0 : Math.max(y0, rowBottom[rank[upper]]);
      const y2 = upwards ? y3 : Math.min(y3, rowTop[rank[lower]]);
      const arrow = lower < level.items.length && !frame.inner[lower] ? PieceFlag.Arrow : 0;
      // A bend has no height of its own: the piece that ends in it also runs through its row.
      const top = upper >= skeleton.realCount ? y1 : y0;
      const bottom = lower >= skeleton.realCount ? rowBottom[rank[lower]] : y3;
      for (const { tensor, weight, start, stop } of routes(this.model, frame, upper, lower, net, position)) {
        this.pieces.push(ox + frame.x[upper] + start, oy + top, oy + y1, ox + frame.x[lower] + stop, oy + y2, oy + bottom);
        this.flags.push(flag | arrow);
        this.from.push(this.joint(scope, frame, upper, frame.inner[upper]?.outPort.get(tensor)?.vertex));
        this.to.push(this.joint(scope, frame, lower, frame.inner[lower]?.inPort.get(tensor)?.vertex));
        this.tensor.push(tensor);
        this.weight.push(weight);
      }
    };
    for (let s = 0; s < segments.count; s++) {
      piece(segments.upper[s], segments.lower[s], segments.net[s], segments.lowerSlot[s], 0);
    }
    for (const [list, flag] of [[skeleton.express, PieceFlag.Express], [skeleton.feedback, PieceFlag.Feedback]] as const) {
      for (const [net, k] of list) piece(level.nets[net].source, level.nets[net].targets[k], net, level.nets[net].positions[k], flag);
    }
  }

  /** The name of a line's end: an item, or a negative number for a bend or for the port of an open scope. */
  private joint(scope: number, frame: Frame, v: number, port: number | undefined): number {
    const { items } = frame.skeleton.level;
    if (v >= items.length) return -1 - (this.jointBase.get(scope)! + v);
    if (port === undefined) return items[v];
    return -1 - (this.jointBase.get(items[v] - this.model.n)! + port);
  }
}
