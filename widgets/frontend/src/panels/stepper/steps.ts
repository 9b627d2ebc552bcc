// What the kernel tells about a stepper: the names of a level once, the values of its nodes as they are looked at.

import type { Model } from "../../core/afm";
import { int32 } from "../../core/buffers";
import { compact, grouped } from "../../core/format";

/** Index of a node, least and greatest finite element, counts of NaN and Inf, shape. */
export type Row = [index: number, low: number | null, high: number | null, nan: number, inf: number, shape: number[]];
export type Range = [low: number | null, high: number | null, nan: number, inf: number];

export interface TensorFacts {
  name: string;
  spec: string;
  side: "in" | "out";
  /** The address: what is around, and the name. */
  path?: string;
  /** Whether it comes from the level above and is edited there. */
  fixed?: boolean;
  /** Absent while the value is not known. */
  range?: Range;
  mean?: number;
  std?: number;
  text?: string;
  thumb?: DataView;
  thumb_shape?: [number, number];
}

export interface NodeFacts {
  index: number;
  name: string;
  path: string;
  op: string;
  where: string;
  of: string;
  inside: boolean;
}

export interface Focus extends NodeFacts {
  tensors: TensorFacts[];
}

export interface Stepping {
  mode: "idle" | "empty" | "ready" | "running";
  say: string;
  tone?: "" | "stop" | "error";
  code?: string;
  level: number;
  crumbs: string[];
  /** What stands before a name in the addresses of this level. */
  prefix: string;
  position: number;
  count: number;
  epoch: number;
  rows: Row[];
  pending: number;
  focus: Focus | null;
  source: string;
  stale: string;
  failed?: number;
  progress?: { position: number; count: number };
}

export interface Rerun {
  level?: number;
  position?: number;
  text?: string;
  before?: Row[];
}

export interface LevelMessage {
  level: number;
  names: string[];
  ops: string[];
  specs: string[];
  split: number;
}

export function stepping(model: Model): Stepping {
  const state = model.get("stepping") as Partial<Stepping> | undefined;
  return { mode: "idle", say: "", level: -1, crumbs: [], prefix: "", position: 0, count: 0, epoch: 0, rows: [], pending: 0, focus: null, source: "", stale: "", ...state };
}

/** The nodes of the level the stepper stands in. */
export class Steps {
  level = -1;
  names: string[] = [];
  /** Index of the first node of a gradient. */
  split = 0;
  private ops: string[] = [];
  private specs: string[] = [];
  private opOf = new Int32Array();
  private specOf = new Int32Array();
  private rows = new Map<number, { epoch: number; row: Row }>();

  takeLevel(message: LevelMessage, buffers: DataView[]): void {
    const [op, spec] = buffers.map(int32);
    Object.assign(this, { level: message.level, names: message.names, split: message.split, ops: message.ops, specs: message.specs, opOf: op, specOf: spec });
    this.rows.clear();
  }

  takeRows(rows: readonly Row[], level: number, epoch: number): void {
    if (level === this.level) for (const row of rows) this.rows.set(row[0], { epoch, row });
  }

  op(index: number): string {
    return this.ops[this.opOf[index]] ?? "";
  }

  spec(index: number): string {
    return this.specs[this.specOf[index]] ?? "";
  }

  row(index: number): Row | undefined {
    return this.rows.get(index)?.row;
  }

  /** The first node of a stretch whose values are not known as of `epoch`. */
  missing(first: number, end: number, epoch: number): number | undefined {
    for (let i = Math.max(0, first); i < end; i++) if (this.rows.get(i)?.epoch !== epoch) return i;
    return undefined;
  }
}

/** `−1 … 2.5`, or one number where all are equal. */
export function spanText(low: number | null, high: number | null): string {
  if (low === null || high === null) return "";
  return low === high ? compact(low) : `${compact(low)} … ${compact(high)}`;
}

/** `B × 64` out of `f32[B, 64]`. */
export function dimsText(spec: string): string {
  const dims = spec.slice(spec.indexOf("[") + 1, -1);
  return dims ? dims.replaceAll(", ", " × ") : "scalar";
}

/** `3 NaN, 1 Inf`, or nothing. */
export function flawText(nan: number, inf: number): string {
  return [nan ? `${grouped(nan)} NaN` : "", inf ? `${grouped(inf)} Inf` : ""].filter(Boolean).join(", ");
}

/** The name as a breakpoint's pattern that fits nothing else. */
export function exactly(path: string): string {
  return path.replace(/[*?[]/g, "[$&]");
}
