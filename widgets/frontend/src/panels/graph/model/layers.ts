// Forward nodes, their gradients of each order, and what else is derived.

/** The layer of what is derived without being the gradient of one node, such as an optimizer's update. */
export const UPDATE = -1;

/** What is the gradient of an update counts as an update: it has no place in the forward drawing to stand beside. */
export function layersOf(origin: Int32Array, derived: Uint8Array): Int8Array {
  const layer = new Int8Array(origin.length);
  const done = Uint8Array.from(derived, (flag) => 1 - flag);
  for (let i = 0; i < origin.length; i++) {
    const chain: number[] = [];
    let at = i;
    for (; at >= 0 && !done[at]; at = origin[at]) {
      done[at] = 1;
      layer[at] = UPDATE;
      chain.push(at);
    }
    for (let node = chain.pop(), below = at < 0 ? UPDATE : layer[at]; node !== undefined; node = chain.pop()) {
      layer[node] = below = below === UPDATE ? UPDATE : below + 1;
    }
  }
  return layer;
}
