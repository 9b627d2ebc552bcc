// Blocks of rows (see wide.ts) stand in straight columns, and the lines that pass them run down their sides.

import type { Ordering } from "./order";
import type { Skeleton } from "./skeleton";

/** Orders the rows of blocks: to the left what is gathered out of them, to the right what leads to them, between the two their own. */
export function settleBlocks({ block, segments, level, realCount, vertexCount }: Skeleton, ordering: Ordering): Ordering {
  if (!block?.includes(1)) return ordering;
  const netOf = new Int32Array(vertexCount).fill(-1);
  for (let s = 0; s < segments.count; s++) if (segments.lower[s] >= realCount) netOf[segments.lower[s]] = segments.net[s];
  const sides = level.nets.map(({ source, targets }) => (block[source] ? -1 : targets.some((target) => block[target]) ? 1 : 0));
  for (const row of ordering.rows) {
    const own = row.filter((v) => block[v]);
    if (!own.length) continue;
    const middle = ordering.position[own[own.length >> 1]];
    const sideOf = (v: number): number => {
      const near = ordering.position[v] < middle ? -1 : 1;
      return netOf[v] < 0 ? near : (sides[netOf[v]] ||= near);
    };
    const others = row.filter((v) => !block[v]);
    row.set([...others.filter((v) => sideOf(v) < 0), ...own.sort((a, b) => a - b), ...others.filter((v) => sideOf(v) > 0)]);
  }
  ordering.index();
  return ordering;
}

/** What stands above and below each vertex of a block of rows in the same column, -1 of all others. */
export function columnsOfBlocks({ block, vertexCount }: Skeleton, { rows }: Ordering): [Int32Array, Int32Array] {
  const above = new Int32Array(vertexCount).fill(-1);
  const below = above.slice();
  let before: Int32Array | undefined;
  for (const row of block ? rows : []) {
    const inBlock = row.filter((v) => block![v]);
    inBlock.forEach((v, i) => {
      const u = before?.[i] ?? -1;
      above[v] = u;
      if (u >= 0) below[u] = v;
    });
    before = inBlock;
  }
  return [above, below];
}
