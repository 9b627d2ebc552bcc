// Groups of samples as text, each token in the colour of its number. What is below the middle is underlined, too, and every
// number stands in a tooltip: nothing is told by colour alone.

import { element } from "../../core/dom";
import { compact } from "../../core/format";
import { pieces, tint, visible } from "../../core/tokens";
import type { Group, Page, Sample, SampleStore } from "./store";

/** Measures that are never below 0, which have one hue. */
const SIZES = new Set(["kl", "entropy"]);
const STEPS: Record<string, number> = { ArrowRight: 1, ArrowLeft: -1, Home: -1e9, End: 1e9 };

/** Hue of a number, and how strong it is from 0 to 1. */
function colour(value: number, { measure = "", middle = 0, limit }: Page): [string, number] {
  const far = middle ? Math.log(value) : value;
  if (!Number.isFinite(far) || !limit) return ["", 0];
  return [SIZES.has(measure) ? "size" : far < 0 ? "less" : "more", Math.min(1, Math.abs(far) / limit)];
}

export const number = (value: number | null | undefined, digits = 3): string => (value === null || value === undefined || Number.isNaN(value) ? "–" : compact(value, digits));

/** What the ends of the scale stand for. */
export function legend({ measure = "", middle = 0, limit }: Page): HTMLElement {
  if (!limit) return element("span", { class: "gw-detail" }, "all the same");
  const [low, high] = SIZES.has(measure) ? ["0", number(limit)] : middle ? [number(Math.exp(-limit)), number(Math.exp(limit))] : [number(-limit), number(limit)];
  return element("span", { class: "gw-samples-legend" }, element("span", {}, low), element("span", { class: "gw-samples-scale", "data-sizes": SIZES.has(measure), "aria-hidden": "true" }), element("span", {}, high));
}

export interface Samples {
  root: HTMLElement;
  draw(chosen: readonly number[]): void;
}

/** `about` says what a sample and a group were worth; `choose` is told the row and place of a token. */
export function samples(
  store: SampleStore, choose: (row: number, place: number) => void, title: (group: Group) => (Node | string)[], about: (sample: Sample, group: Group) => (Node | string)[],
): Samples {
  const root = element("div", { class: "gw-samples" });
  let drawn: Page | undefined;
  let token: HTMLElement | undefined;

  function line(sample: Sample, page: Page, group: Group): HTMLElement {
    const { row, start, tokens, length, reason } = sample;
    const spans = tokens.map((text, at) => {
      const ends = reason === "eos" && at === length - 1;
      const value = store.value(row, at);
      const words = `${ends ? "the end" : visible(text)}: ${page.measure ?? "log-ratio"} ${number(value)}`;
      const span = element("span", { id: `gw-sample-${row}-${at}-${Math.random().toString(36).slice(2)}`, class: "gw-token", role: "option", "aria-selected": "false", title: words, "aria-label": words, "data-place": start + at }, ...(ends ? [element("span", { class: "gw-token-mark" }, "∎")] : pieces(text)));
      tint(span, ...colour(value, page));
      return span;
    });
    const list = element("div", { class: "gw-sample-text", role: "listbox", tabindex: 0, "aria-label": `Tokens of row ${row}`, "data-row": row }, ...spans);
    const more = length > tokens.length ? [element("span", { class: "gw-detail" }, ` … ${length - tokens.length} more`)] : [];
    return element("div", { class: "gw-sample" }, element("div", { class: "gw-sample-about" }, ...about(sample, group)), element("div", {}, tokens.length ? list : element("em", { class: "gw-detail" }, "nothing"), ...more));
  }

  function card(group: Group, page: Page): HTMLElement {
    const more = (group.all ?? 0) - group.rows.length;
    return element(
      "article", { class: "gw-group-card", "data-group": group.at },
      element("header", {}, element("div", { class: "gw-group-prompt", title: group.prompt }, group.prompt || "∅"), ...title(group)),
      element("div", { class: "gw-group-rows" }, ...group.rows.map((sample) => line(sample, page, group))),
      ...(more > 0 ? [element("div", { class: "gw-detail" }, `${more} more rows`)] : []),
    );
  }

  const chosen = (event: Event): HTMLElement | null => (event.target as HTMLElement).closest<HTMLElement>(".gw-token");
  const pick = (span: HTMLElement): void => choose(Number(span.parentElement!.dataset.row), Number(span.dataset.place));
  root.addEventListener("click", (event) => {
    const span = chosen(event);
    if (span) pick(span);
  });
  root.addEventListener("keydown", (event) => {
    const list = (event.target as HTMLElement).closest<HTMLElement>(".gw-sample-text");
    const step = STEPS[event.key];
    if (!list || !step) return;
    const spans = [...list.children] as HTMLElement[];
    const at = token?.parentElement === list ? spans.indexOf(token) : step > 0 ? -1 : spans.length;
    pick(spans[Math.max(0, Math.min(spans.length - 1, at + step))]);
    event.preventDefault();
    event.stopPropagation();
  });

  return {
    root,
    draw([row, place]) {
      const { page } = store;
      if (page !== drawn) root.replaceChildren(...(page?.groups ?? []).map((group) => card(group, page!)));
      drawn = page;
      token?.setAttribute("aria-selected", "false");
      token?.parentElement?.removeAttribute("aria-activedescendant");
      token = root.querySelector<HTMLElement>(`[data-row="${Number(row)}"] > [data-place="${Number(place)}"]`) ?? undefined;
      token?.setAttribute("aria-selected", "true");
      token?.parentElement!.setAttribute("aria-activedescendant", token.id);
    },
  };
}

/** All that is known of the chosen token, in a line. */
export function tokenLine(store: SampleStore): (Node | string)[] {
  const { token } = store;
  if (!token) return [element("span", { class: "gw-detail" }, "Choose a token to see its numbers.")];
  const where = `token ${token.at + 1} of row ${token.row}${token.step === undefined ? "" : `, drawn at step ${token.step} with seed ${token.seed}`}`;
  const facts = token.facts.map(([name, value]) => element("span", { class: "gw-token-fact" }, `${name} `, element("strong", {}, number(value, 4))));
  return [element("strong", { class: "gw-code" }, visible(token.text)), element("span", { class: "gw-detail" }, where), ...facts];
}

/** Turns pages of groups. */
export function pager(turn: (first: number) => void): { root: HTMLElement; draw(page: Page | undefined, size: number, noun: string): void } {
  let [first, size] = [0, 1];
  const words = element("span");
  const press = (text: string, label: string, by: number): HTMLButtonElement => {
    const node = element("button", { type: "button", class: "gw-button", "aria-label": label, title: label }, text);
    node.addEventListener("click", () => turn(first + by * size));
    return node;
  };
  const [back, on] = [press("‹", "Groups before", -1), press("›", "Groups after", 1)];
  return {
    root: element("span", { class: "gw-pager" }, back, words, on),
    draw(page, step, noun) {
      size = step || 1;
      first = page?.first ?? 0;
      const [shown, found] = [page?.groups.length ?? 0, page?.found ?? 0];
      words.textContent = shown ? `${noun} ${first + 1} to ${first + shown} of ${found}` : `no ${noun.toLowerCase()}`;
      back.disabled = first <= 0;
      on.disabled = first + shown >= found;
    },
  };
}
