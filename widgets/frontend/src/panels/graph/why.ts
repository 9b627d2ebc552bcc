// Why a gradient is what it is, in the kernel's words below the drawing.

import type { Why } from "./picture/path";
import { ask, isSaved, type Model } from "../../core/afm";
import { button, element, ICONS, textButton } from "../../core/dom";

export const whyOf = (model: Model): Partial<Why> => (model.get("why") as Partial<Why> | undefined) ?? {};

/** The words, with a button for every node that they are about. */
export class WhyCard {
  readonly root = element("div", { class: "gw-why", role: "status", hidden: true });

  constructor(private readonly model: Model, private readonly visit: (name: string) => void) {}

  update(): void {
    const { busy, parameter, verdict, text = [], causes = [] } = whyOf(this.model);
    this.root.hidden = !busy && !parameter;
    if (busy) this.root.replaceChildren(element("div", { class: "gw-why-head" }, `Following the gradient of ${busy} back from the loss …`));
    if (busy || !parameter) return;
    const close = button(ICONS.cross, "Take the path off the drawing", () => ask(this.model, "why.clear"));
    close.disabled = isSaved(this.model);
    const told = new Map(causes.map((cause) => [cause.text, cause.nodes]));
    const lines = text.slice(1).map((line) => {
      const sentence = line.replace(/^- /, "");
      const names = told.get(sentence) ?? causes.find((cause) => sentence.includes(cause.text))?.nodes ?? [];
      return element("li", {}, sentence, ...names.slice(0, 1).map((name) => textButton("gw-text-link", "show", () => this.visit(name), { "aria-label": `Show ${name}` })));
    });
    this.root.dataset.verdict = verdict;
    this.root.replaceChildren(
      element("div", { class: "gw-why-head" }, element("strong", {}, text[0] ?? ""), element("span", { class: "gw-space" }), close),
      ...(lines.length ? [element("ul", {}, ...lines)] : []),
      element("div", { class: "gw-why-note" }, "The path from the loss is lit; colours and the widths of its lines are the norm of the gradient there."),
    );
  }
}
