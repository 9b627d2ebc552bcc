// A language model at work: a beginning is typed, the text grows token by token in the colour of its probabilities, and each
// token says what might have come, what it attends to and why it came.

import { ask, Cleanup, commit, isSaved, type Model, type Named } from "../../core/afm";
import { action, element, everyFrame, field, select } from "../../core/dom";
import { compact, grouped } from "../../core/format";
import type { Panel } from "../../core/panel";
import { addStyle } from "../../core/style";
import { themeOf } from "../../core/theme";
import { visible } from "../../core/tokens";
import { detail } from "./detail";
import { flow, ranked } from "./flow";
import { textStore, type TextStore } from "./store";
import css from "./text.css";

addStyle(css);

interface ModelFacts {
  name: string;
  words: string;
  tokenizer: boolean;
}

/** Trait, label, tooltip, and least, most and step of its number. */
const NUMBERS: readonly [Named<number>, string, string, number, number | "", number | "any"][] = [
  ["text_length", "Tokens", "After how many new tokens it ends", 1, "", 1],
  ["text_temperature", "Temperature", "What logits are divided by; 0 takes the most likely token", 0, 100, "any"],
  ["text_top_k", "Top k", "Of how many tokens one is drawn; 0 is all", 0, "", 1],
  ["text_top_p", "Top p", "Share of probability of the tokens that are drawn of", 0, 1, "any"],
  ["text_seed", "Seed", "Another seed draws other tokens", 0, "", 1],
];

export const textPanel: Panel<TextStore> = { prepare: textStore, mount: mountTextPanel };

function mountTextPanel(host: HTMLElement, model: Model, store: TextStore): () => void {
  const cleanup = new Cleanup();
  const saved = isSaved(model);
  const facts = model.get("text_model") as ModelFacts;
  const running = (): boolean => model.get("text_state") === "running";
  const scoring = (): boolean => model.get("text_mode") === "score";
  const chosen = (): number => Number(model.get("text_chosen") ?? -1);

  const start = (): void => {
    if (running()) return ask(model, "text.stop");
    if (prompt.value !== model.get("text_prompt")) commit(model, "text_prompt", prompt.value);
    ask(model, "text.start");
  };
  const mode = select("What to do with the text", [["generate", "Generate"], ["score", "Score"]], (value) => commit(model, "text_mode", value));
  const run = action("Generate", start, true);
  const prompt = element("textarea", { class: "gw-input gw-text-prompt", rows: 2, "aria-label": "Prompt", spellcheck: "false" });
  const inputs = NUMBERS.map(([trait, label, title, min, max, step]) => {
    const input = element("input", { class: "gw-input gw-text-number", type: "number", min, max, step, title, "aria-label": label });
    input.addEventListener("change", () => {
      const value = input.valueAsNumber;
      if (Number.isFinite(value) && input.validity.valid) commit(model, trait, value);
      else input.value = String(model.get(trait));
    });
    return { trait, input, root: field(label, input) };
  });
  const options = element("div", { class: "gw-text-options" }, ...inputs.map(({ root }) => root));
  const bar = element("div", { class: "gw-progress", role: "progressbar", "aria-label": "Tokens", "aria-valuemin": 0 }, element("div"));
  const failure = element("div", { class: "gw-text-failure", role: "alert" });
  const tip = element("div", { class: "gw-text-tip", role: "tooltip", hidden: true });
  const text = flow(store, choose, showTip);
  const theme = themeOf(host, cleanup, () => frame.request());
  const about = detail(model, store, theme, () => frame.request());
  const empty = element("div", { class: "gw-text-empty" });
  const status = element("span", { class: "gw-text-status" });
  const legend = element("span", { class: "gw-text-legend" }, "unlikely", element("span", { class: "gw-text-scale", "aria-hidden": "true" }), "likely");
  const body = element("div", { class: "gw-text-body" }, element("div", { class: "gw-text-left" }, empty, text.root), about.root);
  const root = element(
    "section",
    { class: "gw-text", "aria-label": "Text" },
    element("header", { class: "gw-toolbar" }, element("span", { class: "gw-title" }, facts.name), element("span", { class: "gw-subtitle" }, facts.words), element("span", { class: "gw-space" }), mode, run),
    prompt, options, bar, failure, body,
    element("footer", { class: "gw-status" }, status, element("span", { class: "gw-space" }), legend),
    tip,
  );
  host.append(root);

  function choose(at: number): void {
    tip.hidden = true;
    commit(model, "text_chosen", at);
  }

  function showTip(at: number, over: HTMLElement | null): void {
    const token = store.tokens[at];
    tip.hidden = !over || !token?.choices.length || at === chosen();
    if (tip.hidden || !over) return;
    tip.replaceChildren(element("div", { class: "gw-text-token gw-code" }, visible(token.text)), ranked(token.choices.slice(0, 6), token));
    const [frameBox, box] = [root.getBoundingClientRect(), over.getBoundingClientRect()];
    const left = Math.min(box.left - frameBox.left, frameBox.width - tip.offsetWidth - 8);
    const below = box.bottom - frameBox.top + 4;
    tip.style.left = `${Math.max(8, left)}px`;
    tip.style.top = `${below + tip.offsetHeight > frameBox.height ? Math.max(4, box.top - frameBox.top - tip.offsetHeight - 4) : below}px`;
  }

  function statusText(): string {
    const known = store.facts;
    if (!known || !store.tokens.length) return "";
    const n = store.tokens.length - (known.scored ? 0 : known.prompt);
    const parts = [running() && !known.scored ? `${grouped(n)} of ${grouped(known.wanted)} tokens` : `${grouped(n)} ${known.scored ? "" : "new "}tokens`];
    if (known.rate && !known.scored) parts.push(`${compact(known.rate, 3)} tokens/s`);
    if (known.likelihood !== null && known.perplexity !== null) parts.push(`log-likelihood ${compact(known.likelihood, 4)}`, `perplexity ${compact(known.perplexity, 3)}`);
    if (model.get("text_state") === "stopped") parts.push("stopped");
    return parts.join(" · ");
  }

  function draw(): void {
    const known = store.facts;
    const busy = running();
    root.dataset.state = String(model.get("text_state"));
    run.textContent = busy ? "Stop" : scoring() ? "Score" : "Generate";
    run.classList.toggle("gw-action-main", !busy);
    run.disabled = saved || (!busy && !prompt.value.trim());
    mode.disabled = busy || saved;
    prompt.disabled = saved;
    options.hidden = scoring();
    bar.toggleAttribute("data-idle", !busy);
    const done = known?.wanted ? Math.max(0, store.tokens.length - known.prompt) / known.wanted : 0;
    bar.style.setProperty("--gw-done", String(busy ? done : 0));
    bar.setAttribute("aria-valuemax", String(known?.wanted ?? 0));
    bar.setAttribute("aria-valuenow", String(Math.round(done * (known?.wanted ?? 0))));
    failure.textContent = model.get("text_state") === "failed" ? (known?.error ?? "") : "";
    failure.hidden = !failure.textContent;
    const any = store.tokens.length > 0;
    text.root.hidden = about.root.hidden = !any;
    empty.hidden = any;
    empty.textContent = saved
      ? "Nothing had been written when this page was saved."
      : facts.tokenizer
        ? "Type a beginning, and the model goes on with it, token by token, each in the colour of its probability."
        : "The model has no tokenizer: type numbers of tokens, such as 1 2 3.";
    about.draw(chosen());
    text.draw(about.lens(), chosen(), known && !known.scored ? known.prompt : 0);
    legend.hidden = !any || about.lens() !== "likely";
    status.textContent = statusText();
  }

  const onTraits = (): void => {
    if (root.querySelector(":focus") !== prompt) prompt.value = String(model.get("text_prompt") ?? "");
    mode.value = String(model.get("text_mode"));
    for (const { trait, input } of inputs) {
      if (root.querySelector(":focus") !== input) input.value = String(model.get(trait));
      input.disabled = saved;
    }
    frame.request();
  };
  const frame = everyFrame(draw, body);
  prompt.placeholder = facts.tokenizer ? "Once upon a time" : "1 2 3";
  cleanup.dom(prompt, "input", frame.request);
  cleanup.dom(prompt, "change", () => commit(model, "text_prompt", prompt.value));
  cleanup.dom(prompt, "keydown", (event) => {
    event.stopPropagation();
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    start();
  });
  for (const trait of ["text_prompt", "text_mode", "text_state", "text_chosen", "text_layer", "text_head", ...NUMBERS.map(([name]) => name)] as const) cleanup.model(model, `change:${trait}`, onTraits);
  cleanup.add(store.listen(frame.request));
  cleanup.add(() => {
    frame.cancel();
    about.dispose();
    root.remove();
  });
  onTraits();
  draw();
  return () => cleanup.run();
}
