// Rows that are too wide: a fan of many ends, such as ten thousand readers of one input, stands in a block of rows.

/** So many ends may stand side by side. */
const WIDE = 24;

/** Rows in which the ends of a wide row have further rows below it. */
export function spreadWide(rows: Int32Array, isEnd: (v: number) => boolean): Int32Array {
  let last = -1;
  for (const row of rows) last = Math.max(last, row);
  const ends: number[][] = Array.from({ length: last + 1 }, () => []);
  rows.forEach((row, v) => isEnd(v) && ends[row].push(v));
  const start = new Int32Array(last + 1); // where each row has come to stand
  const out = new Int32Array(rows.length);
  for (let row = 0, at = 0; row <= last; row++) {
    const side = ends[row].length > WIDE ? Math.ceil(Math.sqrt(ends[row].length)) : Infinity;
    start[row] = at;
    ends[row].forEach((v, i) => (out[v] = at + Math.floor(i / side)));
    at += 1 + Math.floor(Math.max(0, ends[row].length - 1) / side);
  }
  rows.forEach((row, v) => isEnd(v) || (out[v] = start[row]));
  return out;
}
