// Rows that are too wide: a fan of many ends, such as ten thousand readers of one input, stands in a block of rows.

/** So many ends may stand side by side. */
const WIDE = 24;
/** Lines of beginnings run through the rows below them, so these are few. */
const ROWS_ABOVE = 16;

/** Rows in which ends, and beginnings, of a wide row have rows of their own below it, and above. */
export function spreadWide(rows: Int32Array, isEnd: (v: number) => boolean, isBeginning: (v: number) => boolean): Int32Array {
  let last = -1;
  for (const row of rows) last = Math.max(last, row);
  const ends: number[][] = Array.from({ length: last + 1 }, () => []);
  const beginnings: number[][] = Array.from({ length: last + 1 }, () => []);
  rows.forEach((row, v) => {
    if (isEnd(v)) ends[row].push(v);
    else if (isBeginning(v)) beginnings[row].push(v);
  });
  const out = new Int32Array(rows.length);
  const start = new Int32Array(last + 1); // where each row has come to stand
  for (let row = 0, at = 0; row <= last; row++) {
    const [tops, bottoms] = [beginnings[row], ends[row]];
    const above = tops.length > WIDE ? Math.ceil(Math.max(Math.sqrt(tops.length), tops.length / ROWS_ABOVE)) : Infinity;
    const below = bottoms.length > WIDE ? Math.ceil(Math.sqrt(bottoms.length)) : Infinity;
    start[row] = at + Math.floor(Math.max(0, tops.length - 1) / above);
    tops.forEach((v, i) => (out[v] = start[row] - Math.floor((tops.length - 1 - i) / above)));
    bottoms.forEach((v, i) => (out[v] = start[row] + Math.floor(i / below)));
    at = start[row] + 1 + Math.floor(Math.max(0, bottoms.length - 1) / below);
  }
  for (let v = 0; v < rows.length; v++) if (!isEnd(v) && !isBeginning(v)) out[v] = start[rows[v]];
  return out;
}
