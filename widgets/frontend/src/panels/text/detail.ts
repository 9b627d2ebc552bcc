// What is known of the chosen token: what might have come, what it attends to, why it came.

import { ask, isSaved, type Model } from "../../core/afm";
import { action, element, field, select, Surface } from "../../core/dom";
import { rgb, cssOf, mixed } from "../../core/colors";
import { bytesText, compact } from "../../core/format";
import type { Theme } from "../../core/theme";
import { tabStrip } from "../../core/tabs";
import { visible } from "../../core/tokens";
import { ranked, type Lens } from "./flow";
import { percent, type Attention, type TextStore } from "./store";

const LENSES: readonly { lens: Lens; title: string }[] = [
  { lens: "likely", title: "Likely" },
  { lens: "attention", title: "Attention" },
  { lens: "why", title: "Why" },
];
const MOST_WHY = 12; // tokens listed, those that add most
const LABEL = 16; // pixels of a line of text in the picture of the cache

export interface Detail {
  root: HTMLElement;
  lens(): Lens;
  draw(chosen: number): void;
  dispose(): void;
}

export function detail(model: Model, store: TextStore, theme: () => Theme | undefined, changed: () => void): Detail {
  let lens: Lens = "likely";
  let chosen = -1;
  const facts = model.get("text_model") as { layers: number; heads: number };
  const pages = LENSES.map(({ title }) => ({ title, page: element("div", { class: "gw-page gw-text-lens" }) }));
  const strip = tabStrip("The chosen token", pages, (at) => {
    lens = LENSES[at].lens;
    strip.show(at);
    look();
    changed();
  });
  const step = action("Step through", () => ask(model, "text.step", { at: chosen }));
  step.title = "Steps through the graph that computes this token";
  const title = element("span", { class: "gw-text-token gw-code" });
  const head = element("div", { class: "gw-text-about" }, title, element("span", { class: "gw-space" }), step);
  const [likely, attention, why] = pages.map(({ page }) => page);

  const numbers = (n: number): [string, string][] => Array.from({ length: n }, (_, k) => [String(k), String(k)]);
  const attend = (): void => ask(model, "text.look", { at: chosen, layer: Number(layer.value), head: Number(heads.value) });
  const turn = (): void => {
    model.set("text_layer", Number(layer.value)); // at once: the next choice is made beside this one
    model.set("text_head", Number(heads.value));
    model.save_changes();
    attend();
  };
  const layer = select("Layer", numbers(facts.layers), turn);
  const heads = select("Head", [["-1", "mean"], ...numbers(facts.heads)], turn);
  const map = element("div", { class: "gw-text-map", role: "img" });
  const words = element("p", { class: "gw-text-words" });
  const kept = element("p", { class: "gw-text-words" });
  const cache = element("div", { class: "gw-text-cache", role: "img", "aria-label": "Keys and values of the chosen token" });
  attention.append(element("div", { class: "gw-text-choose" }, field("Layer", layer), field("Head", heads)), words, element("div", { class: "gw-text-looks" }, map, element("div", { class: "gw-text-kept" }, cache, kept)));
  const surface = new Surface(map, () => paint());
  const below = new Surface(cache, () => paint());
  const root = element("div", { class: "gw-text-detail" }, strip.root, head, ...pages.map(({ page }) => page));

  /** Asks for what the lens shows, unless it is here. */
  function look(): void {
    if (chosen < 0 || isSaved(model)) return;
    if (lens === "attention" && !store.attention(chosen)) attend();
    if (lens === "why" && chosen > 0 && !store.why(chosen)) ask(model, "text.why", { at: chosen });
  }

  function paint(): void {
    const colors = theme();
    const found = store.attention(chosen);
    map.hidden = !found || found.rows < 2;
    cache.hidden = kept.hidden = !found;
    if (!colors || !found) return;
    cache.style.height = `${4 * LABEL + 2 * found.kv_heads * headHeight(found)}px`;
    if (!map.hidden && surface.begin()) drawMap(surface, found, colors);
    if (below.begin()) drawCache(below, found, facts.heads, colors);
  }

  function draw(at: number): void {
    const moved = at !== chosen;
    chosen = at;
    const token = store.tokens[at];
    head.hidden = !token;
    step.hidden = isSaved(model) || at < 1;
    title.textContent = token ? visible(token.text) : "";
    layer.value = String(model.get("text_layer"));
    heads.value = String(model.get("text_head"));
    layer.disabled = heads.disabled = !token || isSaved(model);
    if (moved) look();
    const none = element("p", { class: "gw-text-words" }, "Choose a token of the text.");
    const before = element("p", { class: "gw-text-words" }, at ? "The model has not read this token yet." : "Nothing stands before the first token.");
    likely.replaceChildren(!token ? none : token.choices.length ? ranked(token.choices, token) : before);
    const attended = store.attention(at);
    words.textContent = !token ? "Choose a token of the text." : attended ? "Where this token looks. In the map, rows look at columns." : "Looking …";
    kept.textContent = attended ? `Kept of this token, a row for each head; of all up to it ${bytesText(attended.kept)}.` : "";
    map.setAttribute("aria-label", `Attention of layer ${layer.value}, ${heads.value === "-1" ? "mean of the heads" : `head ${heads.value}`}`);
    paint();
    why.replaceChildren(...(token ? reasons(at) : [none.cloneNode(true)]));
  }

  function reasons(at: number): (Node | string)[] {
    const found = store.why(at);
    if (at < 1) return [element("p", { class: "gw-text-words" }, "Nothing stands before the first token.")];
    if (!found) return [element("p", { class: "gw-text-words" }, isSaved(model) ? "This was not asked before the page was saved." : "Looking …")];
    const order = found.shares.map((share, place) => ({ share, place, score: found.scores[place] })).sort((a, b) => b.share - a.share);
    const rows = order.slice(0, MOST_WHY).map(({ share, place, score }) => {
      const row = element(
        "li",
        { "data-hue": score < 0 ? "against" : "for", title: `adds ${compact(score, 3)} to the logit` },
        element("span", { class: "gw-rank-text gw-code" }, visible(store.tokens[place]?.text ?? "")),
        element("span", { class: "gw-rank-bar" }, element("span", {})),
        element("span", { class: "gw-rank-p" }, `${score < 0 ? "−" : "+"}${percent(share)}`),
      );
      row.style.setProperty("--gw-share", String(share / (order[0].share || 1)));
      return row;
    });
    const [text, , logit] = found.chosen;
    const said = `What each token before adds to the logit of ${visible(text)}${logit === null ? "" : `, ${compact(logit, 3)}`}: gradient × embedding, in parts of all.`;
    return [element("p", { class: "gw-text-words" }, said), element("ol", { class: "gw-ranked" }, ...rows)];
  }

  strip.show(0);
  return { root, lens: () => lens, draw, dispose: () => [surface, below].forEach((each) => each.dispose()) };
}

/** A square for each pair of tokens, as dark as the weight is large, beside the largest of its row. */
function drawMap(surface: Surface, { rows, weights }: Attention, theme: Theme): void {
  const { context, width, height } = surface;
  const columns = weights.length / rows;
  const side = Math.max(1, Math.min(16, Math.min(width, height) / columns));
  const [paper, ink] = [rgb(theme.raised), rgb(theme.accent)];
  for (let i = 0; i < rows; i++) {
    const row = weights.subarray(i * columns, i * columns + columns);
    for (let j = 0; j <= i; j++) {
      context.fillStyle = cssOf(mixed(paper, ink, Math.sqrt(Math.max(0, row[j]))));
      context.fillRect(j * side, i * side, Math.ceil(side), Math.ceil(side));
    }
  }
  context.strokeStyle = theme.ink;
  context.strokeRect(0.5, (rows - 1) * side + 0.5, columns * side - 1, side - 1);
}

/** Pixels of the row of a head: few heads are easier to see. */
const headHeight = ({ kv_heads }: Attention): number => Math.max(4, Math.min(14, Math.floor(96 / kv_heads)));

/** Keys and values of a token, a row for each of the heads that keep any, from cold for what is negative to warm. */
function drawCache(surface: Surface, found: Attention, heads: number, theme: Theme): void {
  const { context, width } = surface;
  const { kv_heads: rows, cache } = found;
  const columns = cache.length / (2 * rows);
  const [paper, cold, warm] = [theme.raised, theme.category("activation"), theme.category("loss")].map(rgb);
  const high = headHeight(found);
  context.font = `11px ${theme.font}`;
  context.textBaseline = "middle";
  ["Key", "Value"].forEach((title, k) => {
    const part = cache.subarray(k * rows * columns, (k + 1) * rows * columns);
    const most = part.reduce((top, value) => Math.max(top, Math.abs(value)), 0) || 1;
    const top = k * (2 * LABEL + rows * high);
    context.fillStyle = theme.quiet;
    context.fillText(`${title} · ${columns} features · ±${compact(most, 3)}`, 0, top + LABEL / 2);
    part.forEach((value, at) => {
      const [i, j] = [Math.floor(at / columns), at % columns];
      context.fillStyle = cssOf(mixed(paper, value < 0 ? cold : warm, Math.sqrt(Math.abs(value) / most)));
      const left = Math.floor((j * width) / columns);
      context.fillRect(left, top + LABEL + i * high, Math.ceil(((j + 1) * width) / columns) - left, high - 1);
    });
    if (found.head < 0) return;
    context.strokeStyle = theme.ink; // the head that this one of the queries reads
    context.strokeRect(0.5, top + LABEL + Math.floor((found.head * rows) / heads) * high - 0.5, width - 1, high);
  });
}
