// From the graph and the set of open scopes to a scene: levels are laid out from the inside out and then placed
// from the outside in. Rows and orders are kept for good, finished blocks as long as nothing inside them changes,
// so opening a scope costs that scope and a new placement of its ancestors.
//
// Gradients run in a lane to the right of the forward nodes, in the same rows and the same order, from the bottom
// up. The forward nodes never make room for them: they stand as if there were no gradients, unless one is opened
// that is higher than its row. Updates have a block of their own, further right.

import { settleBlocks } from "./blocks";
import { columnStarts, followColumns, layInColumns } from "./columns";
import { placeHorizontally } from "./coordinates";
import { describe, itemSize, type Face } from "../model/describe";
import { laneGuide, laneRows } from "./lane";
import { buildLevel, signature, type Level } from "./level";
import { UPDATE } from "../model/layers";
import type { GraphModel } from "../model/model";
import { orderAlong, orderRows } from "./order";
import { HEADER, type Block, type Drawn, type Part, type Port } from "./parts";
import { Placement } from "./placement";
import { routes } from "./routes";
import type { Scene } from "./scene";
import { buildLane, buildSkeleton } from "./skeleton";

const GAP_X = 24;
const GAP_BEND = 12;
const GAP_Y = 30;
/** Between the forward nodes and their lane, and between the lane and the updates. */
const GAP_LANE = 64;
const PADDING = 16;
const PAIR_STEP = 5;
/** Width to height of a window, where it is not known. */
const ASPECT = 1.35;
/** The window for which everything stays one column. */
export const ONE_COLUMN = 0;

export class LayoutEngine {
  private readonly drawn = new Map<string, Drawn>();
  private readonly structures = new Map<string, Drawn>();
  private readonly blocks = new Map<number, Block>();
  private readonly faces = new Map<number, Face>();

  /** `aspect` is width to height of the window for which tall levels are laid in columns. */
  constructor(private readonly model: GraphModel, private readonly aspect = ASPECT) {}

  layout(openScopes: Iterable<number>): Scene {
    const open = this.reachable(openScopes);
    const isOpen = new Set(open);
    for (const scope of open) {
      if (this.isTwinOfScope(scope)) continue;
      this.main(scope);
      this.lane(scope);
    }
    // A scope and its twin share their rows, and are made together once everything inside both is known.
    for (let k = open.length - 1; k >= 0; k--) if (!this.isTwinOfScope(open[k])) this.block(open[k], isOpen);
    return new Placement(this.model, this.blocks, isOpen).scene(open);
  }

  private isTwinOfScope(scope: number): boolean {
    return this.model.scopes[scope].of > this.model.n;
  }

  /** Open scopes whose ancestors are all open, outermost first, the root included. */
  private reachable(openScopes: Iterable<number>): number[] {
    const wanted = this.model.opened(openScopes);
    const open = [0];
    for (let k = 0; k < open.length; k++) {
      const { scopes, twins } = this.model.scopes[open[k]];
      for (const s of scopes) if (wanted.has(s)) open.push(s);
      for (const s of twins) if (wanted.has(s)) open.push(s);
    }
    return open;
  }

  /** The scope in which the gradients of a scope's members stand, or -1. */
  private laneScope(scope: number): number {
    const { model } = this;
    if (model.scopes[scope].twins.length) return scope;
    const twin = scope > 0 ? model.twinOf(model.n + scope) : -1;
    return twin < 0 ? -1 : twin - model.n;
  }

  /** The members of a scope: of the layer that the scope itself belongs to. */
  private main(scope: number): Drawn {
    return this.remember(`m${scope}`, () => {
      const { model } = this;
      const update = scope > 0 && model.isUpdate(model.n + scope);
      const members = model.members(scope);
      const items = update ? members : members.filter((item) => !model.isUpdate(item));
      const layer = update ? UPDATE : model.scopes[scope].layer;
      const level = buildLevel(model, { scope, layer, items, ports: true }, (tensors) => this.arrival(scope, tensors));
      return this.share(signature(level), level, () => drawn(level));
    });
  }

  /** The gradients of a scope's members: in their rows, in their order, against their direction. */
  private lane(scope: number): Drawn | undefined {
    const { model } = this;
    const at = this.laneScope(scope);
    if (at < 0) return undefined;
    return this.remember(`l${scope}`, () => {
      const main = this.main(scope);
      const items = main.skeleton.level.items.map((item) => model.twinOf(item)).filter((item) => item >= 0);
      // Ports of a host would lead into the lane around it, which holds gradients of lower order.
      const layer = at === scope ? model.scopes[scope].layer + 1 : 1;
      const level = buildLevel(model, { scope: at, layer, items, ports: at !== scope });
      const rows = laneRows(model, main, items);
      return this.share(`${signature(level)} ${main.skeleton.rankCount} ${rows.places.join()}`, level, () => {
        const skeleton = buildLane(level, rows.rowOf, main.skeleton.rankCount);
        return { skeleton, ordering: orderAlong(skeleton, laneGuide(main, skeleton, rows.partners)) };
      });
    });
  }

  /** Updates that belong to no scope of their own stand beside everything else. */
  private updates(scope: number): Drawn | undefined {
    const { model } = this;
    if (scope > 0 && model.isUpdate(model.n + scope)) return undefined;
    const items = model.members(scope).filter((item) => model.isUpdate(item));
    if (!items.length) return undefined;
    return this.remember(`u${scope}`, () => drawn(buildLevel(model, { scope, layer: UPDATE, items, ports: false })));
  }

  private remember(key: string, make: () => Drawn): Drawn {
    let known = this.drawn.get(key);
    if (!known) this.drawn.set(key, (known = make()));
    return known;
  }

  /** Levels of the same structure, such as the blocks of a transformer, are drawn alike and computed once. */
  private share(key: string, level: Level, make: () => Drawn): Drawn {
    const alike = this.structures.get(key);
    if (alike) return { skeleton: { ...alike.skeleton, level }, ordering: alike.ordering };
    const made = make();
    this.structures.set(key, made);
    return made;
  }

  /** How far to the left tensors reach a scope in the level around it, which is known by then. */
  private arrival(scope: number, tensors: number[]): number {
    const around = this.drawn.get(`m${this.model.scopes[scope].parent}`);
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

  private block(scope: number, open: Set<number>): void {
    const { model } = this;
    const laneScope = this.laneScope(scope);
    const drawn = [this.main(scope), this.lane(scope), this.updates(scope)];
    const inner = drawn.map((level) =>
      level?.skeleton.level.items.map((item) => (item >= model.n && open.has(item - model.n) ? this.blocks.get(item - model.n) : undefined)),
    );
    const before = this.blocks.get(scope);
    const aside = laneScope === scope ? undefined : this.blocks.get(laneScope);
    const known = [...(before?.parts ?? []), ...(aside?.parts ?? [])].flatMap((part) => part.inner);
    const wanted = [inner[0], ...(aside ? [inner[2], inner[1]] : [inner[1], inner[2]])].flatMap((list) => list ?? []);
    if (before && known.every((block, k) => block === wanted[k])) return;

    const up = model.scopes[scope].layer > 0;
    const main = this.part(drawn[0]!, inner[0]!, up);
    const lane = drawn[1] && this.part(drawn[1], inner[1]!, !up);
    const updates = drawn[2] && this.part(drawn[2], inner[2]!, false);
    let height = this.stackRows(scope, main, undefined);
    const starts = up ? [0] : columnStarts(main, height, this.aspect); // the same with and without gradients
    if (lane) height = this.stackRows(scope, main, lane);
    if (starts.length > 1) height = layInColumns(main, starts, scope ? HEADER : 0);
    if (lane) alignRows(main, lane, this.partners(main, lane), height, scope ? HEADER + PADDING / 2 : 0);
    const beside = [main];
    if (lane && laneScope === scope) beside.push(lane);
    if (updates) {
      this.stackRows(0, updates, undefined, scope ? HEADER + PADDING / 2 : 0);
      beside.push(updates);
    }
    this.blocks.set(scope, this.enclose(scope, beside, Math.max(height, updates ? bottomOf(updates) + (scope ? PADDING : 0) : 0)));
    if (lane && laneScope !== scope) this.blocks.set(laneScope, this.enclose(laneScope, [lane], height));
  }

  /** Sizes and horizontal places of a level; the leftmost edge is at 0. */
  private part({ skeleton, ordering }: Drawn, inner: (Block | undefined)[], up: boolean): Part {
    const { level, vertexCount, segments, rankCount } = skeleton;
    const itemCount = level.items.length;
    const w = new Float64Array(vertexCount);
    const h = new Float64Array(vertexCount);
    const half = new Float64Array(vertexCount);
    for (let v = 0; v < vertexCount; v++) {
      if (v < itemCount) {
        const size = inner[v] ?? itemSize(this.face(level.items[v]));
        w[v] = size.width;
        h[v] = size.height;
      }
      half[v] = (w[v] + (v < itemCount ? GAP_X : GAP_BEND)) / 2;
    }
    const part: Part = {
      skeleton, up, inner, w, h, left: 0, width: 0,
      x: new Float64Array(0), y: new Float64Array(vertexCount),
      rowStart: new Float64Array(rankCount), rowEnd: new Float64Array(rankCount),
    };
    const upperOffset = new Float64Array(segments.count);
    const lowerOffset = new Float64Array(segments.count);
    for (let s = 0; s < segments.count; s++) {
      const pairs = routes(this.model, part, segments.upper[s], segments.lower[s], segments.net[s], segments.lowerSlot[s]);
      for (const { start, stop } of pairs) {
        upperOffset[s] += start / pairs.length;
        lowerOffset[s] += stop / pairs.length;
      }
    }
    const x = (part.x = placeHorizontally(skeleton, ordering, { half, upperOffset, lowerOffset }));
    let left = Infinity;
    let right = -Infinity;
    for (let v = 0; v < vertexCount; v++) {
      left = Math.min(left, x[v] - w[v] / 2);
      right = Math.max(right, x[v] + w[v] / 2);
    }
    if (!vertexCount) left = right = 0;
    for (let v = 0; v < vertexCount; v++) x[v] -= left;
    part.width = right - left;
    return part;
  }

  /** Rows one after the other; the gap between two grows with the longest sideways run that has to fit in it. */
  private stackRows(scope: number, part: Part, lane: Part | undefined, start?: number): number {
    const { x, y, h, rowStart, rowEnd, skeleton, up } = part;
    const { segments, rankCount, floating, rank, level, realCount } = skeleton;
    const height = new Float64Array(rankCount);
    for (let v = 0; v < rank.length; v++) height[rank[v]] = Math.max(height[rank[v]], h[v]);
    const partners = lane && this.partners(part, lane);
    partners?.forEach((partner, v) => {
      // A closed gradient is a little higher than its node, which the gap between two rows allows for.
      if (lane!.inner[v]) height[rank[partner]] = Math.max(height[rank[partner]], lane!.h[v]);
    });
    const sideways = new Float64Array(rankCount);
    for (let s = 0; s < segments.count; s++) {
      const r = rank[segments.upper[s]];
      sideways[r] = Math.max(sideways[r], Math.abs(x[segments.upper[s]] - x[segments.lower[s]]));
    }
    const framed = scope > 0;
    const title = start ?? (framed ? HEADER + PADDING / 2 : 0);
    const [ahead, behind] = up ? [level.inPorts.length ? PADDING / 2 : PADDING, title] : [title, framed && !level.outPorts.length ? PADDING : 0];
    let at = ahead;
    let end = ahead;
    for (let r = 0; r < rankCount; r++) {
      rowStart[r] = at;
      end = rowEnd[r] = at + height[r];
      const slim = height[r] === 0 || (r + 1 < rankCount && height[r + 1] === 0);
      at = end + Math.min(72, (slim ? 0.6 : 1) * GAP_Y + sideways[r] / 16);
    }
    const total = end + behind;
    if (level.outPorts.length) rowEnd[rankCount - 1] = up ? end : total;
    // Parameters hang on to the row after them; everything else to the row before.
    for (let v = 0; v < rank.length; v++) {
      const r = rank[v];
      y[v] = v < realCount && floating[v] ? rowEnd[r] - h[v] / 2 : rowStart[r] + h[v] / 2;
    }
    const inEnd = level.items.length + level.inPorts.length;
    for (let v = level.items.length; v < realCount; v++) y[v] = v < inEnd ? 0 : total;
    if (up) {
      for (const column of [rowStart, rowEnd, y]) for (let k = 0; k < column.length; k++) column[k] = total - column[k];
      // Upwards a row begins at its lower edge, and its boxes still hang on to the upper one.
      for (let v = 0; v < level.items.length; v++) y[v] = rowEnd[rank[v]] + h[v] / 2;
    }
    return total;
  }

  private partners(main: Part, lane: Part): number[] {
    const vertexOf = new Map(main.skeleton.level.items.map((item, v) => [item, v]));
    const { model } = this;
    return lane.skeleton.level.items.map((item) => vertexOf.get(model.scopes[item - model.n].of)!);
  }

  /** Puts parts side by side into a frame. */
  private enclose(scope: number, parts: Part[], height: number): Block {
    const pad = scope ? PADDING : 0;
    const minimum = scope ? itemSize(this.face(this.model.n + scope)).width + 24 : 0;
    const content = parts.reduce((sum, part) => sum + part.width, (parts.length - 1) * GAP_LANE);
    const width = Math.max(minimum, content + 2 * pad);
    let left = (width - content) / 2;
    const block: Block = { width, height, parts, inPort: new Map(), outPort: new Map() };
    for (const part of parts) {
      part.left = left;
      left += part.width + GAP_LANE;
      const { level, realCount } = part.skeleton;
      const add = (ports: number[][], first: number, into: Map<number, Port>): void => {
        ports.forEach((tensors, k) => {
          for (const t of tensors) into.set(t, { x: part.left + part.x[first + k], vertex: first + k, part });
        });
      };
      add(level.inPorts, level.items.length, block.inPort);
      add(level.outPorts, realCount - level.outPorts.length, block.outPort);
    }
    return block;
  }
}

function drawn(level: Level): Drawn {
  const skeleton = buildSkeleton(level);
  return { skeleton, ordering: settleBlocks(skeleton, orderRows(skeleton)) };
}

function bottomOf({ y, h }: Part): number {
  let bottom = 0;
  for (let v = 0; v < y.length; v++) bottom = Math.max(bottom, y[v] + h[v] / 2);
  return bottom;
}

/** Gives a lane the rows of the level beside it: what comes last there comes first here. */
function alignRows(main: Part, lane: Part, partners: number[], height: number, title: number): void {
  const { skeleton, y, h } = lane;
  const { rows, rank, level, realCount } = skeleton;
  const rankCount = main.skeleton.rankCount;
  const [bottom, top] = lane.up ? [height, title] : [title, height];
  rows.forEach((row, k) => {
    const partner = rankCount - row;
    lane.rowStart[k] = row === 0 ? bottom : row > rankCount ? top : main.rowEnd[partner];
    lane.rowEnd[k] = row === 0 ? bottom : row > rankCount ? (lane.up ? 0 : height) : main.rowStart[partner];
  });
  if (main.columns) followColumns(lane, main.columns, rows.map((row) => rankCount - row));
  const inRow = new Map<number, number[]>();
  for (let v = 0; v < rank.length; v++) {
    if (v >= realCount) y[v] = (lane.rowStart[rank[v]] + lane.rowEnd[rank[v]]) / 2;
    else if (v >= level.items.length) y[v] = lane.up === v < level.items.length + level.inPorts.length ? height : 0;
    else {
      const upper = Math.min(lane.rowStart[rank[v]], lane.rowEnd[rank[v]]);
      const tall = h[v] > main.h[partners[v]] && lane.inner[v];
      y[v] = tall ? upper + h[v] / 2 : main.y[partners[v]];
      inRow.set(rank[v], [...(inRow.get(rank[v]) ?? []), v]);
    }
  }
  lane.shift = new Float64Array(level.items.length);
  for (const row of inRow.values()) {
    row.sort((a, b) => lane.x[a] - lane.x[b]);
    row.forEach((v, i) => (lane.shift![v] = Math.max(-12, Math.min(12, (i - (row.length - 1) / 2) * PAIR_STEP))));
  }
}
