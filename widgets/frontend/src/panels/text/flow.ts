// The text as tokens in a line, each with the colour of what is asked of it; one of them is chosen, by pointer or by arrow keys.

import { element } from "../../core/dom";
import { compact } from "../../core/format";
import { pieces, tint, visible } from "../../core/tokens";
import { percent, surprise, type Choice, type TextStore, type Token } from "./store";

/** What colours the text: how likely tokens were, what is attended to, what adds to a logit. */
export type Lens = "likely" | "attention" | "why";

const SURE = 0.55; // what is certain is quieter than what surprises

export interface Flow {
  root: HTMLElement;
  /** Writes what is new, and colours all of it. */
  draw(lens: Lens, chosen: number, prompt: number): void;
}

export function flow(store: TextStore, choose: (at: number) => void, hover: (at: number, token: HTMLElement | null) => void): Flow {
  const root = element("div", { class: "gw-text-flow", role: "listbox", "aria-label": "Tokens", tabindex: 0 });
  const spans: HTMLElement[] = [];
  const shown: Token[] = [];
  let current = -1;

  const at = (event: Event): number => {
    const found = (event.target as HTMLElement).closest<HTMLElement>(".gw-token");
    return found ? spans.indexOf(found) : -1;
  };
  root.addEventListener("click", (event) => {
    const place = at(event);
    if (place >= 0) choose(place);
  });
  root.addEventListener("pointerover", (event) => {
    const place = at(event);
    hover(place, spans[place] ?? null);
  });
  root.addEventListener("pointerleave", () => hover(-1, null));
  root.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const to = event.key === "Home" ? 0 : event.key === "End" ? spans.length - 1 : step ? Math.min(spans.length - 1, Math.max(0, current + step)) : -1;
    if (to < 0) return;
    choose(to);
    event.preventDefault();
    event.stopPropagation();
  });

  const draw = (lens: Lens, chosen: number, prompt: number): void => {
    const { tokens } = store;
    while (spans.length > tokens.length) spans.pop()!.remove();
    shown.length = spans.length;
    const attention = lens === "attention" ? store.attention(chosen) : undefined;
    const why = lens === "why" ? store.why(chosen) : undefined;
    const row = attention?.weights.subarray(attention.weights.length - attention.at - 1);
    const top = row ? Math.max(...row, 1e-9) : why ? Math.max(...why.shares, 1e-9) : 1;
    const colour = (place: number, { p }: Token): [number, string] => {
      if (row && place < row.length) return [Math.sqrt(Math.max(0, row[place]) / top), "attended"];
      if (why && place < why.shares.length) return [why.shares[place] / top, why.scores[place] < 0 ? "against" : "for"];
      if (lens !== "likely" || p === null) return [0, ""];
      const size = surprise(p);
      return size > 0 ? [size, "unlikely"] : [-SURE * size, "likely"];
    };
    tokens.forEach((token, place) => {
      const span = spans[place] ?? element("span", { id: `gw-token-${Math.random().toString(36).slice(2)}`, class: "gw-token", role: "option" });
      if (place === spans.length) {
        spans.push(span);
        root.append(span);
      }
      if (shown[place] !== token) {
        span.replaceChildren(...pieces(token.text));
        span.setAttribute("aria-label", `${visible(token.text)}${token.p === null ? "" : `, ${percent(token.p)}`}`);
        shown[place] = token;
      }
      span.classList.toggle("gw-token-prompt", place < prompt);
      span.setAttribute("aria-selected", String(place === chosen));
      const [amount, hue] = colour(place, token);
      tint(span, hue, amount);
    });
    if (chosen >= 0 && spans[chosen]) root.setAttribute("aria-activedescendant", spans[chosen].id);
    else root.removeAttribute("aria-activedescendant");
    if (chosen !== current) spans[chosen]?.scrollIntoView({ block: "nearest" });
    current = chosen;
  };
  return { root, draw };
}

/** Tokens that might have come, best first, each with a bar of its probability; the one that came is marked. */
export function ranked(choices: readonly Choice[], came: Token | undefined): HTMLElement {
  const rows = choices.map((choice) => bar(choice, choice[1] === came?.id));
  if (came && came.p !== null && !choices.some(([, id]) => id === came.id)) {
    rows.push(element("li", { class: "gw-rank-gap", "aria-hidden": "true" }, "⋯"), bar([came.text, came.id, null, came.p], true, (came.rank ?? 0) + 1));
  }
  return element("ol", { class: "gw-ranked" }, ...rows);
}

function bar([text, id, logit, p]: Choice, came: boolean, place?: number): HTMLElement {
  const row = element(
    "li",
    { title: `token ${id}${logit === null ? "" : `, logit ${compact(logit)}`}`, ...(came ? { "data-came": true } : {}) },
    element("span", { class: "gw-rank-text gw-code" }, visible(text)),
    element("span", { class: "gw-rank-bar" }, element("span", {})),
    element("span", { class: "gw-rank-p" }, place ? `${percent(p)} · ${place}.` : percent(p)),
  );
  row.style.setProperty("--gw-share", String(p ?? 0));
  return row;
}
