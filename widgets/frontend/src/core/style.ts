// The style sheet of a bundle: what all panels share, and what each panel it holds adds for itself.

import css from "./style.css";

const sheets = [css];

/** Adds the rules of a panel; called once, where the panel's module begins. */
export function addStyle(rules: string): void {
  sheets.push(rules);
}

export function styleSheet(): string {
  return sheets.join("\n");
}
