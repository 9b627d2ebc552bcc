// What a layout is made of before it becomes a scene: a level in parts, and the block of an open scope.

import type { Ordering } from "./order";
import type { Skeleton } from "./skeleton";

/** Height of the bar at the top of a frame. */
export const HEADER = 28;

/** From a column to the first line that runs beside it, from one such line to the next, and lines for which room is kept. */
export const CLEAR = 14;
export const STEP = 6;
export const MOST_LINES = 12;

/** Where a tensor comes in or goes out, from the block's left edge; the vertex belongs to `part`. */
export interface Port {
  x: number;
  vertex: number;
  part: Part;
}

/** The rows of a level in columns side by side. */
export interface Columns {
  /** The column of each row, -1 of ports into the scope; those out of it count as one more. */
  of: Int32Array;
  /** How many lines lead out of each column into the next, beginning with the ports, and the place of each among them by `vertex net`. */
  slots: { counts: number[]; of: Map<string, number> };
  /** Where the rows begin, where those of each column end, and the middle of the gap to its right without lines. */
  top: number;
  bottom: number[];
  gutter: number[];
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
  /** Where the level is so tall that its rows stand side by side. */
  columns?: Columns;
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
