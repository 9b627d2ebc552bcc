// Numbers and shapes as text.

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

/** `64 × 10`, or `scalar`. */
export function shapeText(shape: readonly number[]): string {
  return shape.length ? shape.join(" × ") : "scalar";
}
