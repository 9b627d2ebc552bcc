// The room that text takes, without a browser's fonts.

/** So many times as wide is bold text, in DejaVu. */
export const BOLD = 1.18;

/** Approximate width of text in a system sans-serif at this size; wide ones, such as DejaVu, are allowed for. */
export function textWidth(text: string, size: number): number {
  let em = 0;
  for (const letter of text) {
    if ("iljtfr.,:;|!'`()[]{}/\\ ".includes(letter)) em += 0.34;
    else if ("mwMW@%→×".includes(letter)) em += 0.88;
    else if (letter >= "A" && letter <= "Z") em += 0.68;
    else if (letter > "\u2e80") em += 1;
    else em += 0.575;
  }
  return 1.06 * em * size;
}
