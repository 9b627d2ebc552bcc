// What is known of the chosen token: what might have come, what it attends to, why it came.

import { ask, isSaved, type Model } from "../../core/afm";
import { action, element, field, select, Surface } from "../../core/dom";
import { rgb, cssOf, mixed } from "../../core/colors";
import { compact } from "../../core/format";
import type { Theme } from "../../core/theme";
import { tabStrip } from "../../core/tabs";
import { ranked, type Lens } from "./flow";
import { percent, visible, type Attention, type TextStore } from "./store";

const LENSES: readonly { lens: Lens; title: string }[] = [
  { lens: "likely", title: "Likely" },
  { lens: "attention", title: "Attention" },
  { lens: "why", title: "Why" },
];
const MOST_WHY = 12; // tokens listed, those that add most

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
  attention.append(element("div", { class: "gw-text-choose" }, field("Layer", layer), field("Head", heads)), words, map);
  const surface = new Surface(map, () => paint());
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
    if (!colors || !found || map.hidden || !surface.begin()) return;
    drawMap(surface, found, colors);
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
    const before = element("p", { class: "gw-text-words" }, "A token of the prompt: the model was not asked.");
    likely.replaceChildren(!token ? none : token.choices.length ? ranked(token.choices, token) : before);
    const attended = store.attention(at);
    words.textContent = !token ? "Choose a token of the text." : attended ? "From this token to those before it. In the map, a row looks at its columns." : "Looking …";
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
  return { root, lens: () => lens, draw, dispose: () => surface.dispose() };
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
