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

/** A number as short as it can be read: four significant digits, thousands as k, tiny ones with an exponent. */
export function compact(value: number): string {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "NaN" : value > 0 ? "∞" : "−∞";
  const size = Math.abs(value);
  const text =
    size === 0 ? "0"
    : size >= 1e6 ? `${trim((size / 1e6).toPrecision(4))}M`
    : size >= 1e4 ? `${trim((size / 1e3).toPrecision(4))}k`
    : size >= 1e-3 ? trim(size.toPrecision(4))
    : size.toExponential(1).replace("e-", "e−");
  return value < 0 ? `−${text}` : text;
}

function trim(digits: string): string {
  return digits.includes(".") ? digits.replace(/\.?0+$/, "") : digits;
}
