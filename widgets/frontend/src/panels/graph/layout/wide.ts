// Rows that are too wide, such as ten thousand readers of one input, or as many inputs of one reader: they stand in a
// block of rows. Only those whose lines all run to places where many meet move, so that a line down either side will do.

/** So many lines from one place, or to one, run together. */
export const BUS = 5;
/** So many may stand side by side. */
export const WIDE = 24;

/** Rows of vertices, and which of them stand in a block; 2 for the one of each block that the main line may run through. */
export interface Spread {
  rows: Int32Array;
  block: Uint8Array;
}

/** `inn` and `out` are the neighbours of each vertex; a floating one that nobody else reads moves with its reader. */
export function spreadWide(rows: Int32Array, inn: number[][], out: number[][], floating: Uint8Array): Spread {
  const isOwn = (u: number): boolean => floating[u] === 1 && !inn[u].length && out[u].length === 1;
  const isFree = (v: number): boolean => inn[v].every((u) => isOwn(u) || out[u].length >= BUS) && out[v].every((w) => inn[w].length >= BUS);
  let last = -1;
  for (const row of rows) last = Math.max(last, row);
  const free: number[][] = Array.from({ length: last + 1 }, () => []);
  rows.forEach((row, v) => isFree(v) && free[row].push(v));
  const start = new Int32Array(last + 1); // where each row has come to stand
  const spread: Spread = { rows: new Int32Array(rows.length), block: new Uint8Array(rows.length) };
  for (let row = 0, at = 0; row <= last; row++, at++) {
    start[row] = at;
    const count = free[row].length;
    if (count <= WIDE) continue;
    const step = free[row].some((v) => inn[v].some(isOwn)) ? 2 : 1; // of rows, for what moves along
    const lines = Math.ceil(count / Math.ceil(Math.sqrt(step * count)));
    free[row].forEach((v, i) => {
      spread.block[v] = i === Math.floor(count / lines / 2) ? 2 : 1;
      spread.rows[v] = step * Math.floor((i * lines) / count);
    });
    at += step * (lines - 1);
  }
  rows.forEach((row, v) => (spread.rows[v] += start[row]));
  rows.forEach((_, v) => {
    if (!spread.block[v]) return;
    for (const u of inn[v].filter(isOwn)) [spread.rows[u], spread.block[u]] = [spread.rows[v] - 1, 1];
  });
  return spread;
}
