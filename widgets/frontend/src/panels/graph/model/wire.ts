// The graph as it travels from the kernel: one column per fact.

import { bytes, int32 } from "../../../core/buffers";

/** What is known of nodes by themselves, and the edges between them. Numbers are little-endian buffers, text is interned. */
export interface GraphColumns {
  /** Full node names, `hidden/matmul`, in creation order. */
  names: string[];
  /** Distinct calls, such as `softmax(axis=-1)`, and of each the op's name, its category, and whether its nodes enclose others (not in older pages). */
  calls: string[];
  ops: string[];
  categories: string[];
  opens?: boolean[];
  /** Distinct tensor specs, such as `f32[B, 64]`. */
  specs: string[];
  /** i32[nodes]: index into `calls`. */
  call: DataView;
  /** u8[nodes]: index into `KINDS`. */
  kind: DataView;
  /** i32[nodes + 1]: the outputs of node i are the tensors `firstTensor[i] .. firstTensor[i + 1] - 1`. */
  first_tensor: DataView;
  /** i32[tensors]: index into `specs`. */
  spec: DataView;
  /** i32[edges, 3]: tensor, consuming node, argument position; sorted by consumer and position. */
  edges: DataView;
}

/** Cards, blocks and runs of repeats, parents before children: what takes the place of scopes made of names. */
export interface GroupColumns {
  /** Paths, each of them once. */
  names: string[];
  /** What is drawn on a group and beside that; a card may have rows alone. */
  titles: string[];
  notes: string[];
  /** What the ops of a card do, and the category of each row; none of other groups. */
  rows: string[][];
  categories: string[][];
  /** i32[groups]: the group around it, or -1. */
  parent: DataView;
  /** u8[groups]: index into `GROUPS`. */
  kind: DataView;
  /** i32[groups]: the first group of the same structure. */
  like: DataView;
}

/** An adapter: its name, its method, whether it is computed with, and the scopes that are its own. */
export interface AdapterSpec {
  name: string;
  method: string;
  on: boolean;
  scopes: string[];
}

export const GROUPS = ["block", "card", "run"] as const;

export interface GraphSpec extends GraphColumns {
  version: 1;
  name: string;
  /** i32[nodes]: the node whose gradient a node belongs to, or -1. */
  origin: DataView;
  /** u8[nodes]: 1 in the derived layer: gradients, updates, the state of an optimizer. */
  derived: DataView;
  /** u8[nodes]: what each is for, a `Role`; not in older pages. */
  role?: DataView;
  /** Where scopes are no names, and i32[nodes]: the group that each stands in, -1 at the top. */
  groups?: GroupColumns;
  group?: DataView;
  /** Not in older pages. */
  adapters?: AdapterSpec[];
  /** Where nodes are opened, i32[nodes]: the node that a node is inside of, or -1; its number in the graph as sent, or -1. */
  holder?: DataView;
  sent?: DataView;
}

export const KINDS = ["array", "placeholder", "variable", "constant"] as const;
export type Kind = (typeof KINDS)[number];

/** The columns of numbers as arrays. */
export function columnsOf({ call, kind, first_tensor, spec, edges }: GraphColumns): {
  call: Int32Array; kind: Uint8Array; firstTensor: Int32Array; specOf: Int32Array; edges: Int32Array;
} {
  return { call: int32(call), kind: new Uint8Array(bytes(kind)), firstTensor: int32(first_tensor), specOf: int32(spec), edges: int32(edges) };
}
