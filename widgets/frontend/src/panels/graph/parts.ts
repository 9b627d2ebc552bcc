// What a layout is made of before it becomes a scene: a level in parts, and the block of an open scope.

import type { Ordering } from "./order";
import type { Skeleton } from "./skeleton";

/** Height of the bar at the top of a frame. */
export const HEADER = 28;

/** Where a tensor comes in or goes out, from the block's left edge; the vertex belongs to `part`. */
export interface Port {
  x: number;
  vertex: number;
  part: Part;
}

/** One level, laid out. */
export interface Part {
  skeleton: Skeleton;
  /** Whether lines run upwards. */
  up: boolean;
  /** Blocks of the open children at the time of layout, by vertex. */
  inner: (Block | undefined)[];
  /** Left edge inside the block. */
  left: number;
  width: number;
  /** Centre and size of each vertex; x from the part's left edge, y from the block's top. */
  x: Float64Array;
  y: Float64Array;
  w: Float64Array;
  h: Float64Array;
  /** Where lines enter each row and where they leave it. */
  rowStart: Float64Array;
  rowEnd: Float64Array;
  /** How far each hairline to the partner is moved up or down, so that those of one row stay apart. */
  shift?: Float64Array;
}

/** What stands inside the frame of an open scope. */
export interface Block {
  width: number;
  height: number;
  parts: Part[];
  inPort: Map<number, Port>;
  outPort: Map<number, Port>;
}

export interface Drawn {
  skeleton: Skeleton;
  ordering: Ordering;
}
