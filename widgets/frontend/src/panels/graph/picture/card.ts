// A card as it is painted: a sheet with the stripe of its main op, a dot of its category before each row.

import { CARD_ROW, CARD_TITLE, CHIP, DOT, FIRST, INSET, LINE, type CardFace } from "../model/card_face";
import { fitText, type Pen } from "./pen";
import { opener, snowflake } from "./shapes";
import type { Theme } from "../../../core/theme";

/** How a card is written: its inks, whether rows are large enough to be read, and whether something stored in it is frozen. */
export interface CardInk {
  ink: string;
  quiet: string;
  /** Colours of rows say nothing beside an overlay. */
  plain: boolean;
  rows: boolean;
  frozen: boolean;
}

export function cardWords(pen: Pen, { title, rows, categories, chip }: CardFace, [x, y, w]: readonly number[], { ink, quiet, plain, rows: small, frozen }: CardInk, theme: Theme): void {
  let right = x + w - 20;
  opener(pen, right, y + FIRST - 6, quiet);
  if (chip && small) {
    right -= 6;
    pen.text(chip, right, y + FIRST, { size: CHIP, color: quiet, align: "right" });
    right -= pen.measure(chip, CHIP);
  }
  if (frozen) {
    snowflake(pen, right - 8, y + FIRST, quiet);
    right -= 14;
  }
  let middle = y + FIRST;
  const line = (text: string, inset: number, size: number, weight: number, end: number): void => {
    pen.text(fitText(pen, text, size, weight, end - x - inset - 4).text, x + inset, middle, { size, weight, color: ink });
    middle += LINE;
  };
  if (title) line(title, INSET, CARD_TITLE, 600, right);
  rows.forEach((row, k) => {
    if (!small && title) return;
    pen.box(x + INSET, middle - 2.5, 5, 5, 1.5, { fill: plain ? quiet : theme.category(categories[k] ?? "math") });
    line(row, INSET + DOT, CARD_ROW, 400, title || k ? x + w - 6 : right);
  });
}
