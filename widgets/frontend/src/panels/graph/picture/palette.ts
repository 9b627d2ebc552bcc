// Colours for numbers. Lightness runs one way along a ramp, so that the order is seen without telling hues apart and in
// print; a diverging ramp runs from blue to orange, which stay distinct without red-green vision.

import { along, cssOf, linear, luminance, rgb, type Rgb } from "../../../core/colors";

const RAMPS = {
  sequential: { light: ["#fbf1c4", "#86c9a6", "#2c84a5", "#0c2f60"], dark: ["#22304b", "#21647f", "#52b092", "#f5e99c"] },
  diverging: {
    light: ["#0b4f8a", "#86badb", "#f3f1ed", "#edb07a", "#9c4300"],
    dark: ["#74c4ff", "#2b6795", "#2e3138", "#965a2b", "#ffb36b"],
  },
};
const STEPS = 64;
/** The palette of Okabe and Ito, for kinds that have no order; what is of several kinds is grey. */
const KINDS = ["#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#0072b2", "#d55e00", "#f0e442", "#b4a7d6"];
const SEVERAL = "#9aa1ac";

/** A colour and the black or white that is read best on it. */
export interface Shade {
  fill: string;
  ink: string;
}

/** The shade of a kind, by its number; from the ninth on they come again. */
export function kindShade(kind: number, several: boolean): Shade {
  const fill = rgb(several ? SEVERAL : KINDS[kind % KINDS.length]);
  return { fill: cssOf(fill), ink: inkOn(fill) };
}

function inkOn(color: Rgb): string {
  return luminance(color) > 0.179 ? "rgb(0, 0, 0)" : "rgb(255, 255, 255)";
}

/** The shades of a ramp from its low to its high end. */
export function ramp(diverging: boolean, dark: boolean): Shade[] {
  const stops = RAMPS[diverging ? "diverging" : "sequential"][dark ? "dark" : "light"].map((hex) => toOklab(rgb(hex)));
  return Array.from({ length: STEPS }, (_, k) => {
    const color = fromOklab(along(stops, k / (STEPS - 1)));
    return { fill: cssOf(color), ink: inkOn(color) };
  });
}

/** The shade at `t` from 0 to 1. */
export function shadeAt(shades: readonly Shade[], t: number): Shade {
  return shades[Math.max(0, Math.min(shades.length - 1, Math.round(t * (shades.length - 1))))];
}

function companded(v: number): number {
  const part = v <= 0.0031308 ? 12.92 * v : 1.055 * v ** (1 / 2.4) - 0.055;
  return Math.round(255 * Math.max(0, Math.min(1, part)));
}

/** Oklab (Ottosson, 2020): a space in which equal steps look about equal. */
export function toOklab(color: Rgb): Rgb {
  const [r, g, b] = color.map(linear);
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ];
}

function fromOklab([lightness, a, b]: Rgb): Rgb {
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    companded(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
    companded(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
    companded(-0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s),
  ];
}
