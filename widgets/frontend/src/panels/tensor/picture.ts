// What the kernel sends about a tensor, and the cells of a picture of it.

import { bytes, float64 } from "../../core/buffers";

/** Part of a sheet: [tile rows, tile columns, rows and columns inside each tile], each as begin and end. */
export type Window = [number, number, number, number, number, number, number, number];

export interface PartFacts {
  window: Window;
  /** Rows and columns of cells in each tile. */
  cells: [number, number];
  /** `value`, or `min`, `max`, `mean` and, if there are any, `nan`, `+inf`, `-inf` of each cell. */
  fields: string[];
  type: "f4" | "f8";
  /** Of how many values one was read. */
  every: number;
}

export interface TensorFacts {
  kind: "tensor.picture";
  serial: number;
  name: string;
  origin: string;
  outputs: string[];
  /** The node whose selection shows it, in a page without a kernel. */
  kept?: string;
  /** How to get the value, where it is not known; then there is nothing below. */
  note?: string;
  shape: number[];
  dtype: string;
  /** Both, as the graph writes them: `f32[64, 128]`. */
  spec: string;
  complex: boolean;
  /** Float64 does not hold the elements exactly, so the kernel is asked for them. */
  asks: boolean;
  index: string;
  parts: string[];
  /** For each axis of the tensor: where the slice starts, its step, and the axis of the slice or -1. */
  axes: [number, number, number][];
  slice: number[];
  plane: number[];
  tiles: number;
  shown: number;
  grid: [number, number];
  height: number;
  width: number;
  part?: PartFacts;
  rows: [string, string][];
  every: number;
  about: string;
  low: number | null;
  high: number | null;
  robust: [number | null, number | null];
  bad: { kind: string; count: number; at: number[] }[];
  counts: number[];
  code: string;
  literal: string;
  /** In a saved page the whole tensor, as numbers of this type, may be the second buffer. */
  whole?: "f4" | "f8";
}

/** A row and column in one tile of the sheet. */
export interface Place {
  tile: number;
  row: number;
  column: number;
}

export const GOOD = 0;
export const NAN = 1;
export const PLUS = 2;
export const MINUS = 3;
export type State = 0 | 1 | 2 | 3;

/** The cells of one window. */
export class Part {
  readonly rows: number;
  readonly columns: number;
  readonly reduced: boolean;
  readonly tiles: number[] = [];
  private readonly numbers: Float32Array | Float64Array;
  private readonly size: number;

  constructor(readonly facts: PartFacts, across: number, shown: number, buffer: DataView) {
    [this.rows, this.columns] = facts.cells;
    this.reduced = facts.fields[0] !== "value";
    this.numbers = facts.type === "f4" ? new Float32Array(bytes(buffer)) : float64(buffer);
    const [r0, r1, c0, c1] = facts.window;
    for (let r = r0; r < r1; r++) for (let c = c0; c < c1; c++) if (r * across + c < shown) this.tiles.push(r * across + c);
    this.size = this.tiles.length * this.rows * this.columns;
  }

  /** Number of the cell that holds an element, -1 outside of the window. */
  cell({ tile, row, column }: Place): number {
    const [, , , , top, bottom, left, right] = this.facts.window;
    const k = this.tiles.indexOf(tile);
    if (k < 0 || row < top || row >= bottom || column < left || column >= right) return -1;
    return (k * this.rows + along(row - top, bottom - top, this.rows)) * this.columns + along(column - left, right - left, this.columns);
  }

  /** The rows and columns of its tile that the cell of an element stands for: top, bottom, left, right. */
  span({ row, column }: Place): [number, number, number, number] {
    const [, , , , top, bottom, left, right] = this.facts.window;
    const [y0, y1] = bounds(row - top, bottom - top, this.rows);
    const [x0, x1] = bounds(column - left, right - left, this.columns);
    return [top + y0, top + y1, left + x0, left + x1];
  }

  /** The value that a cell shows; NaN where it has no finite one. */
  value(cell: number, mean: boolean): number {
    if (!this.reduced) return this.numbers[cell];
    if (mean) return this.numbers[cell + 2 * this.size];
    const [low, high] = [this.numbers[cell], this.numbers[cell + this.size]];
    return -low > high ? low : high;
  }

  field(cell: number, k: number): number {
    return this.numbers[cell + k * this.size];
  }

  /** Whether a cell holds something that is not finite, the worst first. */
  state(cell: number): State {
    if (this.reduced) {
      for (let k = 3; k < this.facts.fields.length; k++) if (this.field(cell, k)) return (k - 2) as State;
      return GOOD;
    }
    const value = this.numbers[cell];
    return Number.isFinite(value) ? GOOD : Number.isNaN(value) ? NAN : value > 0 ? PLUS : MINUS;
  }

  get length(): number {
    return this.size;
  }
}

/** Which of `cells` even parts of `length` holds an element; part k begins at floor(k * length / cells). */
function along(element: number, length: number, cells: number): number {
  return Math.ceil(((element + 1) * cells) / length) - 1;
}

function bounds(element: number, length: number, cells: number): [number, number] {
  const k = along(element, length, cells);
  return [Math.floor((k * length) / cells), Math.floor(((k + 1) * length) / cells)];
}

/** Index in the whole tensor of a place on the sheet. */
export function fullIndex(facts: TensorFacts, { tile, row, column }: Place): number[] {
  const at = new Array<number>(facts.slice.length).fill(0);
  if (facts.slice.length === 1) at[0] = column;
  else if (facts.slice.length) {
    const others = facts.slice.map((_, k) => k).filter((k) => !facts.plane.includes(k));
    for (const k of others.reverse()) {
      at[k] = tile % facts.slice[k];
      tile = Math.floor(tile / facts.slice[k]);
    }
    [at[facts.plane[0]], at[facts.plane[1]]] = [row, column];
  }
  return facts.axes.map(([start, step, axis]) => (axis < 0 ? start : start + step * at[axis]));
}

/** Place on the sheet of an index in the whole tensor; undefined where the slice does not hold it. */
export function placeOf(facts: TensorFacts, index: readonly number[]): Place | undefined {
  if (index.length !== facts.axes.length) return undefined;
  const at = new Array<number>(facts.slice.length).fill(0);
  for (const [k, [start, step, axis]] of facts.axes.entries()) {
    const steps = axis < 0 ? 0 : (index[k] - start) / step;
    if (axis < 0 ? index[k] !== start : !Number.isInteger(steps) || steps < 0 || steps >= facts.slice[axis]) return undefined;
    if (axis >= 0) at[axis] = steps;
  }
  if (at.length < 2) return { tile: 0, row: 0, column: at[0] ?? 0 };
  const tile = at.reduce((sum, n, k) => (facts.plane.includes(k) ? sum : sum * facts.slice[k] + n), 0);
  return tile < facts.shown ? { tile, row: at[facts.plane[0]], column: at[facts.plane[1]] } : undefined;
}

/** Another slice, at another index of one axis, from the whole tensor: what the kernel does where there is one. */
export function cut(facts: TensorFacts, whole: DataView, axis: number, at: number): [TensorFacts, DataView] {
  let k = -1;
  const parts = facts.parts.map((part) => (part !== "None" && ++k === axis ? String(at) : part));
  const axes = facts.axes.map((entry, i) => (i === axis ? ([at, 0, -1] as [number, number, number]) : entry));
  const next = { ...facts, parts, axes, index: `[${parts.join(", ")}]` };
  const Numbers = facts.whole === "f4" ? Float32Array : Float64Array;
  const all = new Numbers(bytes(whole));
  const out = new Numbers(facts.shown * facts.height * facts.width);
  for (let i = 0; i < out.length; i++) {
    const place = { tile: Math.floor(i / facts.width / facts.height), row: Math.floor(i / facts.width) % facts.height, column: i % facts.width };
    out[i] = all[fullIndex(next, place).reduce((flat, n, d) => flat * facts.shape[d] + n, 0)];
  }
  return [next, new DataView(out.buffer)];
}

/** The place one cell of a part further, across the border between planes, too; the same place at the rim. */
export function step(facts: TensorFacts, part: Part, place: Place, dx: number, dy: number): Place {
  const [top, bottom, left, right] = part.span(place);
  const across = facts.grid[1];
  let { tile } = place;
  let row = dy > 0 ? bottom : dy < 0 ? top - 1 : place.row;
  let column = dx > 0 ? right : dx < 0 ? left - 1 : place.column;
  if (column < 0 && tile % across) [tile, column] = [tile - 1, facts.width - 1];
  else if (column >= facts.width && (tile + 1) % across) [tile, column] = [tile + 1, 0];
  if (row < 0 && tile >= across) [tile, row] = [tile - across, facts.height - 1];
  else if (row >= facts.height) [tile, row] = [tile + across, 0];
  const inside = row >= 0 && column >= 0 && column < facts.width && tile < facts.shown;
  return inside ? { tile, row, column } : place;
}

/** A number with as many digits as its type has: the shortest text that reads back as the same number. */
export function digits(value: number, type: "f4" | "f8"): string {
  if (!Number.isFinite(value) || Number.isInteger(value) || type === "f8") return plain(value);
  for (let count = 1; count < 9; count++) {
    const short = Number(value.toPrecision(count));
    if (Math.fround(short) === value) return plain(short);
  }
  return plain(Number(value.toPrecision(9)));
}

function plain(value: number): string {
  return Number.isNaN(value) ? "NaN" : value === Infinity ? "+Inf" : Object.is(value, -0) ? "-0" : String(value).replace("Infinity", "Inf");
}
