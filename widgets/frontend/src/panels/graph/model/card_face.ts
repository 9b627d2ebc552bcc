// What is written on a card and how large that is: a title if it has one, what its ops do in rows, and in the corner what
// they read beside the main line: `7 w · shape`.

import { BOLD, textWidth } from "./text";

export interface CardFace {
  title: string;
  rows: string[];
  /** The category of each row. */
  categories: string[];
  chip: string;
}

/** The middle of the first line from the card's upper edge, and from line to line. */
export const FIRST = 15;
export const LINE = 16;
export const CARD_TITLE = 12;
export const CARD_ROW = 11;
export const CHIP = 9.5;
/** The left edge of the title; rows stand behind a dot. */
export const INSET = 13;
export const DOT = 11;
const CORNER = 18; // the mark that it opens
const WIDEST = 270;
const WEIGHS = ["linear", "norm", "activation", "control"];

export function cardSize({ title, rows, chip }: CardFace): { width: number; height: number } {
  const lines = rows.map((row) => DOT + textWidth(row, CARD_ROW));
  if (title) lines.unshift(BOLD * textWidth(title, CARD_TITLE));
  const [first = 0, ...others] = lines;
  const corner = CORNER + (chip ? textWidth(chip, CHIP) + 22 : 0); // and a snowflake
  const width = INSET + Math.max(first + corner, ...others) + 8;
  return { width: Math.ceil(Math.max(104, Math.min(WIDEST, width))), height: 2 * FIRST + LINE * (lines.length - 1) };
}

/** The row that says what a card is: a convolution, rather than the norm before it. */
export function mainRow(categories: string[]): number {
  return Math.max(0, categories.indexOf(WEIGHS.find((category) => categories.includes(category)) ?? ""));
}
