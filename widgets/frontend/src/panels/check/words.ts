// Verdicts as words, signs and colours; never by colour alone.

import { element } from "../../core/dom";
import { compact, minus } from "../../core/format";
import type { Verdict } from "./store";

export const WORDS: Record<Verdict, string> = {
  ok: "agrees",
  fail: "wrong",
  kink: "kink",
  unclear: "unclear",
  surrogate: "as declared",
  unchecked: "not checked",
  stopped: "stopped",
};

export const SIGNS: Record<Verdict, string> = { ok: "✓", fail: "✕", kink: "∧", unclear: "≈", surrogate: "≙", unchecked: "·", stopped: "■" };

export function verdictMark(verdict: Verdict): HTMLElement {
  return element(
    "span",
    { class: "gw-verdict", "data-verdict": verdict },
    element("span", { class: "gw-sign", "aria-hidden": "true" }, SIGNS[verdict]),
    WORDS[verdict],
  );
}

/** A relative error: `3e−9`, `0` or, where something is not a number, `NaN`. */
export function errorText(error: number | null): string {
  if (error === null) return "NaN";
  return error === 0 ? "0" : error < 1e-3 ? minus(error.toExponential(0)) : compact(error, 2);
}

export function secondsText(seconds: number): string {
  if (seconds < 1e-3) return `${Math.round(seconds * 1e6)} µs`;
  if (seconds < 1) return `${compact(seconds * 1e3, 2)} ms`;
  if (seconds < 90) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  return `${Math.round(seconds / 60)} min`;
}
