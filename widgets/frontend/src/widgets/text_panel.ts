// A text and, behind a tab, the stepper on what computes a token of it.

import { Cleanup, commit, type Model } from "../core/afm";
import { element } from "../core/dom";
import { defineWidget } from "../core/shell";
import { tabStrip } from "../core/tabs";
import { stepperPanel } from "../panels/stepper/panel";
import { textPanel } from "../panels/text/panel";
import type { TextStore } from "../panels/text/store";

const PAGES = ["text", "step"] as const;

function mount(root: HTMLElement, model: Model, store: TextStore): () => void {
  const cleanup = new Cleanup();
  const pages = ["Text", "Step"].map((title) => ({ title, page: element("div", { class: "gw-page" }) }));
  const strip = tabStrip("Panels", pages, (at) => commit(model, "text_page", PAGES[at]));
  const bench = element("div", { class: "gw-talk" }, strip.root, ...pages.map(({ page }) => page));
  root.append(bench);
  cleanup.add(textPanel.mount(pages[0].page, model, store));
  cleanup.add(stepperPanel.mount(pages[1].page, model, undefined));
  const update = (): void => strip.show(Math.max(0, PAGES.indexOf(model.get("text_page"))));
  cleanup.model(model, "change:text_page", update);
  cleanup.add(() => bench.remove());
  update();
  return () => cleanup.run();
}

const { widget, open } = defineWidget({ prepare: textPanel.prepare, mount });
export { widget as default, open };
