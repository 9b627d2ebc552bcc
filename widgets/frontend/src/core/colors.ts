// Colours as numbers: red, green and blue from 0 to 255.

export type Rgb = [number, number, number];

/** The parts of `#1f2430`, or of `rgb(31, 36, 48)` as a theme has it. */
export function rgb(color: string): Rgb {
  if (color.startsWith("#")) return [1, 3, 5].map((k) => parseInt(color.slice(k, k + 2), 16)) as Rgb;
  return (color.match(/[\d.]+/g) ?? []).slice(0, 3).map(Number) as Rgb;
}

export function cssOf(color: Rgb): string {
  return `rgb(${color.map(Math.round).join(", ")})`;
}

export function mixed(from: Rgb, to: Rgb, share: number): Rgb {
  return from.map((part, k) => part + share * (to[k] - part)) as Rgb;
}

/** The colour at a place from 0 to 1 between evenly spaced ones. */
export function along(stops: readonly Rgb[], place: number): Rgb {
  const at = place * (stops.length - 1);
  const k = Math.min(stops.length - 2, Math.floor(at));
  return mixed(stops[k], stops[k + 1], at - k);
}

/** A part of an sRGB colour as an amount of light, from 0 to 1. */
export function linear(part: number): number {
  const v = part / 255;
  return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
}

/** Relative luminance, 0 for black and 1 for white. */
export function luminance(color: Rgb): number {
  const [r, g, b] = color.map(linear);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
