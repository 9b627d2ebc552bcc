// Round numbers for axes.

/** Steps of 1, 2 or 5 times a power of ten that cover [low, high] in at most about `count` intervals. */
export function ticks(low: number, high: number, count: number): number[] {
  if (!(high > low) || count < 1) return [low];
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => (high - low) / s <= count + 0.5)!;
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, k) => (first + k) * step);
}

/** At most about `count` + 1 round numbers in [low, high] for a logarithmic axis: 1, 2, 5 of each decade, 1 and 3, or powers of ten. */
export function decades(low: number, high: number, count: number): number[] {
  const first = Math.floor(Math.log10(low));
  const last = Math.floor(Math.log10(high) + 1e-9);
  const powers = Array.from({ length: last - first + 1 }, (_, k) => first + k);
  for (const parts of [[1, 2, 5], [1, 3], [1]]) {
    const found = powers.flatMap((power) => parts.map((part) => part * 10 ** power)).filter((v) => v >= low * (1 - 1e-9) && v <= high * (1 + 1e-9));
    if (found.length > 1 && found.length <= count + 1) return found;
  }
  if (powers.length < 3) return ticks(low, high, count).filter((value) => value > 0);
  const stride = Math.ceil(powers.length / (count + 1));
  return powers.slice(1).filter((power) => power % stride === 0).map((power) => 10 ** power);
}
