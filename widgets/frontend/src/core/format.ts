// Numbers and shapes as text.

/** A number as short as it can be read: a few significant digits, thousands as k, tiny ones with an exponent. */
export function compact(value: number, digits = 4): string {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "NaN" : value > 0 ? "∞" : "−∞";
  const size = Math.abs(value);
  const rounded = (part: number): string => String(Number(part.toPrecision(digits)));
  const text =
    size === 0 ? "0"
    : size >= 1e9 ? Number(size.toPrecision(digits)).toExponential().replace("+", "")
    : size >= 1e6 ? `${rounded(size / 1e6)}M`
    : size >= 1e4 ? `${rounded(size / 1e3)}k`
    : size >= 1e-3 ? rounded(size)
    : minus(size.toExponential(1));
  return value < 0 ? `−${text}` : text;
}

/** Hyphens as minus signs. */
export function minus(text: string): string {
  return text.replaceAll("-", "−");
}

/** A relative error: `3e−9`, `0` or, where something is not a number, `NaN`. */
export function errorText(error: number | null): string {
  if (error === null) return "NaN";
  return error === 0 ? "0" : error < 1e-3 ? minus(error.toExponential(0)) : compact(error, 2);
}

/** Digits in threes: `2,015`. */
export function grouped(count: number): string {
  return count.toLocaleString("en");
}

/** `1 node`, `2,015 nodes`. */
export function counted(count: number, noun: string): string {
  return `${grouped(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/** `64 × 10`, or `scalar`. */
export function shapeText(shape: readonly number[]): string {
  return shape.length ? shape.join(" × ") : "scalar";
}

/** `312 B`, `9.6 kB`, `1.2 GB`. */
export function bytesText(count: number): string {
  const power = Math.min(4, Math.max(0, Math.floor(Math.log10(Math.max(1, count)) / 3)));
  return `${Number((count / 1000 ** power).toPrecision(3))} ${["B", "kB", "MB", "GB", "TB"][power]}`;
}

/** How long ago something was, in seconds: `now`, `40 s`, `3 min`, `5 h`, `2 days`. */
export function agoText(seconds: number): string {
  if (seconds < 5) return "now";
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 2 * 86400) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} days`;
}

/** The order of names: layer10 after layer9. */
export const natural = new Intl.Collator("en", { numeric: true }).compare;
