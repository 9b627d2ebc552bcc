// An error of the house on the page, every part of it as text.

import { action, element } from "../../core/dom";
import { Refused, type Words } from "./served";

/** What was refused: one sentence, what came in, what was needed, what to try, and a button that tries again. */
export function problem(error: unknown, words: Words, again?: () => void): HTMLElement {
  const { message, where, facts, need, hint } = error instanceof Refused ? error : new Refused(String(error));
  const line = (label: string, text: string): HTMLElement[] =>
    text ? [element("dt", {}, label), element("dd", {}, text)] : [];
  return element("div", { class: "gw-problem", role: "alert" },
    element("strong", {}, where ? `${where}: ${message}` : message),
    element("dl", {}, ...facts.flatMap((fact) => line(words("found"), fact)), ...line(words("needed"), need), ...line(words("try"), hint)),
    ...(again ? [action(words("Try again"), again)] : []));
}

/** Whether an error is only that its asker has gone away. */
export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

/** Whether the server, and not the file, is what is missing. */
export function isAway(error: unknown): boolean {
  return error instanceof Refused && error.code === "away";
}

/** Whether the file is of a known format, and damaged. */
export function isDamage(error: unknown): boolean {
  return error instanceof Refused && error.status === 422;
}
