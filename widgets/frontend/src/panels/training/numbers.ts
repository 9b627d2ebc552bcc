// Learning rates on a slider and durations as text.

/** Two decades either way around a rate. The middle stays until a rate leaves the slider, so that it does not creep. */
export class RateScale {
  private middle = 0;

  /** Place of a rate, in decades from the middle; zero, which has no place, is at the left end. */
  toSlider(rate: number): number {
    if (!(rate > 0)) return -2;
    if (!this.middle || Math.abs(Math.log10(rate / this.middle)) > 2) this.middle = rate;
    return Math.log10(rate / this.middle);
  }

  /** The rate at a place, of three digits. */
  fromSlider(at: number): number {
    return Number(((this.middle || 1e-3) * 10 ** at).toPrecision(3));
  }
}

export function rateText(rate: number): string {
  if (rate === 0) return "0";
  return rate >= 1e-3 && rate < 1e4 ? String(Number(rate.toPrecision(3))) : rate.toExponential(2).replace(/\.?0+e/, "e");
}

/** The learning rate that was typed, or why it is none. */
export function parseRate(text: string): number | string {
  const typed = text.trim();
  const rate = typed ? Number(typed.replace("−", "-").replace(",", ".")) : NaN;
  if (rate >= 0 && Number.isFinite(rate)) return rate;
  const why = !typed ? "Nothing was typed" : Number.isNaN(rate) ? `“${typed.slice(0, 40)}” is not a number` : rate < 0 ? `${typed} is below zero` : `${typed} is too large`;
  return `${why}; a learning rate is a number from 0 on, such as 0.003 or 3e-4. The rate has not changed.`;
}

/** `0.7 s`, `0:17`, `12:34` or `1:02:03`. */
export function duration(seconds: number): string {
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const two = (n: number): string => String(n).padStart(2, "0");
  return hours ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`;
}
