// The graph as it travels from the kernel: one column per fact.

import { bytes, int32 } from "../../core/buffers";

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

export interface GraphSpec extends GraphColumns {
  version: 1;
  name: string;
  /** i32[nodes]: the node whose gradient a node belongs to, or -1. */
  origin: DataView;
  /** u8[nodes]: 1 in the derived layer: gradients, updates, the state of an optimizer. */
  derived: DataView;
  /** u8[nodes]: what each is for, a `Role`; not in older pages. */
  role?: DataView;
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
