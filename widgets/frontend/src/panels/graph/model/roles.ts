// What a node is for: the main computation, a weight or what is made of weights alone, or arithmetic on shapes. The
// kernel judges that on the whole graph; for pages that do not carry its word, it is judged here.

import { KINDS } from "./wire";

export const enum Role {
  Main = 0,
  Stored = 1,
  Shape = 2,
}

const INPUT = KINDS.indexOf("placeholder");
const ARRAY = KINDS.indexOf("array");

/** The columns of a graph that tell roles; the edges into node i are `firstInput[i] .. firstInput[i + 1] - 1`. */
export interface Columns {
  kind: Uint8Array;
  layer: Int8Array;
  firstInput: Int32Array;
  edgeTensor: Int32Array;
  nodeOf: Int32Array;
  /** Of each node, whether it draws numbers. */
  random(node: number): boolean;
}

/** Without an input everything would be made of weights: then only they are. */
export function judgeRoles({ kind, layer, firstInput, edgeTensor, nodeOf, random }: Columns): Uint8Array {
  const fed = kind.includes(INPUT);
  const role = new Uint8Array(kind.length);
  for (let node = 0; node < kind.length; node++) {
    if (kind[node] !== ARRAY) role[node] = kind[node] === INPUT ? Role.Main : Role.Stored;
    else if (fed && layer[node] === 0 && firstInput[node] < firstInput[node + 1] && !random(node)) {
      let stored = true;
      for (let e = firstInput[node]; stored && e < firstInput[node + 1]; e++) stored = role[nodeOf[edgeTensor[e]]] === Role.Stored;
      if (stored) role[node] = Role.Stored;
    }
  }
  return role;
}
