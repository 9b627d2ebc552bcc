// Values as colours. The diverging palette runs from blue over the paper's own colour to orange, which stays distinct
// without red-green vision; the sequential one changes in lightness all the way, so it also reads in grey.

import { along, rgb, type Rgb } from "../../core/colors";
import { ticks } from "../../core/ticks";

const stops = (text: string): Rgb[] => text.split(" ").map(rgb);

const PALETTES = {
  diverging: {
    light: stops("#08306b #2266ac #85b7dc #f6f6f3 #f6b877 #cc6a12 #7a3303"),
    dark: stops("#b5dcff #5aa9ec #28619c #1d2026 #96540f #ee9437 #ffdcae"),
  },
  sequential: {
    light: stops("#fbf6e6 #f3cf83 #e2913f #ad4a55 #6a2a66 #281a48"),
    dark: stops("#1c1630 #5a2a66 #a84860 #de8a48 #f2c878 #fdf7e2"),
  },
  gray: { light: stops("#ffffff #15171c"), dark: stops("#0d0e11 #f6f7f9") },
};
const SHADES = 512;
/** Log colours run over this many powers of ten below the largest magnitude. */
const DECADES = 6;

export type Palette = keyof typeof PALETTES;

/** NaN, +Inf and −Inf: colours that no palette has; a sign of its own tells them apart without colour. */
export const BAD_COLORS = ["", "#c2188b", "#e0b400", "#00836a"] as const;

export class Scale {
  readonly table = new Uint8ClampedArray(3 * (SHADES + 1));
  private readonly peak: number;
  private readonly split: boolean;

  constructor(readonly low: number, readonly high: number, palette: Palette, dark: boolean, private readonly log: boolean) {
    const colors = PALETTES[palette][dark ? "dark" : "light"];
    for (let k = 0; k <= SHADES; k++) this.table.set(along(colors, k / SHADES), 3 * k);
    this.peak = Math.max(Math.abs(low), Math.abs(high));
    this.split = palette === "diverging" || (log && low < 0 && high > 0);
  }

  /** Where a value is between the ends of the palette, 0 to 1; a diverging one has 0 in its middle. */
  at(value: number): number {
    const inside = Math.min(this.high, Math.max(this.low, value));
    if (!this.log) {
      if (this.split) return this.peak ? 0.5 + inside / this.peak / 2 : 0.5;
      return this.high > this.low ? (inside / 2 - this.low / 2) / (this.high / 2 - this.low / 2) : 0.5;
    }
    const size = inside && this.peak ? Math.max(0, 1 + Math.log10(Math.abs(inside) / this.peak) / DECADES) : 0;
    if (this.split) return 0.5 + (Math.sign(inside) * size) / 2;
    return this.low >= 0 ? size : 1 - size;
  }

  /** First of the three bytes of a value's colour in the table. */
  color(value: number): number {
    return 3 * Math.round(this.at(value) * SHADES);
  }

  css(value: number): string {
    const k = this.color(value);
    return `rgb(${this.table[k]}, ${this.table[k + 1]}, ${this.table[k + 2]})`;
  }

  /** Whether white text is easier to read on a value's colour than black. */
  isDark(value: number): boolean {
    const k = this.color(value);
    return 0.299 * this.table[k] + 0.587 * this.table[k + 1] + 0.114 * this.table[k + 2] < 140;
  }

  /** Height of a value on the colour bar, 0 at its low end. */
  height(value: number): number {
    const [low, high] = [this.at(this.low), this.at(this.high)];
    return high > low ? (this.at(value) - low) / (high - low) : 0.5;
  }

  /** Colour at a height of the bar, as its place in the table. */
  shade(height: number): number {
    const [low, high] = [this.at(this.low), this.at(this.high)];
    return 3 * Math.round((low + (high - low) * height) * SHADES);
  }

  ticks(count: number): number[] {
    if (!this.log) return ticks(this.low, this.high, count);
    const top = Math.floor(Math.log10(this.peak || 1));
    const powers = [0, 2, 4].map((k) => 10 ** (top - k));
    const all = [...powers.map((p) => -p).reverse(), 0, ...powers];
    return all.filter((value) => value >= this.low && value <= this.high && (value !== 0 || this.split));
  }
}
