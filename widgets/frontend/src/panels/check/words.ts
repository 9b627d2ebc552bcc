// Verdicts as words, signs and colours; never by colour alone.

import { element } from "../../core/dom";
import { compact, grouped } from "../../core/format";
import { WAYS, type Verdict } from "./store";

export const WORDS: Record<Verdict, string> = {
  ok: "agrees",
  fail: "wrong",
  kink: "kink",
  unclear: "unclear",
  unchecked: "not checked",
  stopped: "stopped",
  surrogate: "as declared",
};

/** The verdict of a parameter; one that agrees with gradients that are declared agrees with the loss no more than these do. */
export function shownVerdict({ verdict, surrogates }: { verdict: Verdict; surrogates: readonly string[] }): Verdict {
  return verdict === "ok" && surrogates.length ? "surrogate" : verdict;
}

export const SIGNS: Record<Verdict, string> = { ok: "✓", fail: "✕", kink: "∧", unclear: "≈", unchecked: "·", stopped: "■", surrogate: "~" };

const WAY_WORDS = { unchecked: "", certified: "certified by the chain", differenced: "by differences, many at once", probed: "by differences, alone" } as const;

/** How an element was checked. */
export const wayText = (way: number): string => WAY_WORDS[WAYS[way]] ?? "";

/** How the elements of a parameter were checked: `768 certified by the chain, 24 by differences`. */
export function waysText({ certified, differenced, probed }: { certified: number; differenced: number; probed: number }): string {
  const parts = [certified && `${grouped(certified)} certified by the chain`, differenced && `${grouped(differenced)} by differences, many at once`, probed && `${grouped(probed)} by differences, one by one`];
  return parts.filter(Boolean).join(", ");
}

export function verdictMark(verdict: Verdict): HTMLElement {
  return element(
    "span",
    { class: "gw-verdict", "data-verdict": verdict },
    element("span", { class: "gw-sign", "aria-hidden": "true" }, SIGNS[verdict]),
    WORDS[verdict],
  );
}

export function secondsText(seconds: number): string {
  if (seconds < 1e-3) return `${Math.round(seconds * 1e6)} µs`;
  if (seconds < 1) return `${compact(seconds * 1e3, 2)} ms`;
  if (seconds < 90) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  return `${Math.round(seconds / 60)} min`;
}
