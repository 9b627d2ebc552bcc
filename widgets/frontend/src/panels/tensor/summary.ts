// What is below the picture: histogram, statistics, and where values are not finite.

import { ask, commit, isSaved, type Cleanup, type Model } from "../../core/afm";
import { element, Surface, textButton } from "../../core/dom";
import { grouped } from "../../core/format";
import type { Theme } from "../../core/theme";
import type { Scale } from "./colors";
import { toggle } from "./controls";
import { drawHistogram } from "./histogram";
import type { TensorFacts } from "./picture";

const BARS = "M2.5 13.5h11M4 11V9M8 11V6M12 11V2.5";

export interface Summary {
  update(facts: TensorFacts | undefined): void;
  draw(theme: Theme, facts: TensorFacts, scale: Scale | undefined): void;
}

export function mountSummary(root: HTMLElement, model: Model, cleanup: Cleanup, redraw: () => void): Summary {
  const saved = isSaved(model);
  const updates: (() => void)[] = [];
  const about = element("div", { class: "gw-subtitle" });
  const all = textButton("gw-text-link", "Read all", () => commit(model, "tensor_exact", true), { disabled: saved });
  const log = toggle(model, updates, BARS, "Logarithmic counts", "tensor_log_counts");
  const plot = element("div", { class: "gw-tensor-plot", role: "img" });
  const bad = element("div", { class: "gw-tensor-bad" });
  const list = element("div", { class: "gw-tensor-list" }); // not a dl, which JupyterLab lays out its own way
  const head = element("div", { class: "gw-tensor-head" }, about, all, element("span", { class: "gw-space" }), log);
  const below = element("div", { class: "gw-tensor-below", tabindex: 0, role: "region", "aria-label": "Statistics" }, element("div", { class: "gw-tensor-side" }, head, plot, bad), list);
  root.append(below);
  const surface = new Surface(plot, redraw);
  cleanup.add(() => surface.dispose());

  return {
    update(facts) {
      below.hidden = !facts;
      if (!facts) return;
      for (const run of updates) run();
      about.textContent = facts.about;
      all.hidden = facts.every === 1;
      // Shape and type stand in the title.
      list.replaceChildren(...facts.rows.slice(2).flatMap(([label, text]) => [element("span", { class: "gw-tensor-label" }, label), element("span", { class: "gw-tensor-number", title: text }, text)]));
      bad.replaceChildren(...facts.bad.map(({ kind, count, at }) => {
        const go = (): void => (saved ? commit(model, "tensor_cursor", at) : ask(model, "tensor.jump", { at }));
        const chip = textButton("gw-tensor-chip", ` first at [${at.join(", ") || "()"}]`, go, { "data-kind": kind, title: `Go to the first ${kind}` });
        chip.prepend(element("strong", {}, `${grouped(count)} ${kind}`));
        return chip;
      }));
      plot.hidden = log.hidden = !facts.counts.length || facts.low === facts.high; // a single bar says nothing
      plot.setAttribute("aria-label", `Histogram of ${facts.about}`);
    },
    draw(theme, facts, scale) {
      drawHistogram(surface, theme, facts, scale, Boolean(model.get("tensor_log_counts")));
    },
  };
}
