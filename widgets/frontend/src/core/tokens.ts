// Tokens of a text as a page shows them: what cannot be seen made visible, and each in the colour of a number.

import { element } from "./dom";
import { addStyle } from "./style";
import css from "./tokens.css";

addStyle(css);

const DEPTH = 62; // % of a hue at its strongest; ink stays readable on it

/** Text with its line breaks as such, and a mark where each is. */
export function pieces(text: string): (Node | string)[] {
  if (!text) return [element("span", { class: "gw-token-mark" }, "▯")];
  return text.split("\n").flatMap((part, k) => (k ? [element("span", { class: "gw-token-mark" }, "↵"), "\n", part] : [part]));
}

/** Text with what cannot be seen made visible. */
export function visible(text: string): string {
  return text.replaceAll("\n", "↵").replaceAll("\t", "⇥").replace(/^ +| +$/g, (spaces) => "·".repeat(spaces.length)) || "∅";
}

/** Gives a token a hue, from none of it at 0 to its strongest at 1. */
export function tint(token: HTMLElement, hue: string, amount: number): void {
  token.dataset.hue = hue;
  token.style.setProperty("--gw-amount", `${Math.round(DEPTH * amount)}%`);
}
