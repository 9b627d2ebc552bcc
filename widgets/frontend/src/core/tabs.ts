// Panels one behind the other, with a tab for each: arrow keys move between tabs, as the ARIA tab pattern asks.

import { Cleanup, commit, type Model, type Named } from "./afm";
import type { Traits } from "./contract";
import { element, textButton } from "./dom";

export interface TabStrip {
  root: HTMLElement;
  tabs: HTMLButtonElement[];
  /** Brings a page to the front. */
  show(at: number): void;
}

/** Tabs of pages that stand elsewhere; `choose` is told which one is asked for. */
export function tabStrip(label: string, pages: readonly { title: string; page: HTMLElement }[], choose: (at: number) => void): TabStrip {
  const tabs = pages.map(({ title, page }, k) => {
    page.setAttribute("role", "tabpanel");
    page.setAttribute("aria-label", title);
    return textButton("gw-tab", title, () => choose(k), { role: "tab" });
  });
  const root = element("div", { class: "gw-tabs", role: "tablist", "aria-label": label }, ...tabs);
  root.addEventListener("keydown", (event) => {
    const there = tabs.filter((tab) => !tab.hidden);
    const at = there.indexOf(event.target as HTMLButtonElement);
    const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (at < 0 || !move) return;
    const next = there[(at + move + there.length) % there.length];
    choose(tabs.indexOf(next));
    next.focus();
    event.preventDefault();
    event.stopPropagation();
  });
  const show = (at: number): void => tabs.forEach((tab, k) => {
    tab.setAttribute("aria-selected", String(k === at));
    tab.tabIndex = k === at ? 0 : -1;
    pages[k].page.hidden = k !== at;
  });
  return { root, tabs, show };
}

/** Traits that say which panel is in front. */
type Front = "tab" | "text_page" | "rollout_page";

export interface Tab<K extends Front = "tab"> {
  name: Traits[K];
  title: string;
  /** A list without which the tab is not there, unless it is in front. */
  needs?: Named<object[]>;
  mount: (host: HTMLElement) => () => void;
}

/** Panels over a trait. Every one is mounted at once, so that all of them follow the kernel. */
export function mountTabs<K extends Front>(host: HTMLElement, model: Model, front: K, panels: readonly Tab<K>[]): () => void {
  const cleanup = new Cleanup();
  const pages = panels.map(({ title }) => ({ title, page: element("div", { class: "gw-page" }) }));
  const strip = tabStrip("Panels", pages, (at) => commit(model, front, panels[at].name));
  const root = element("div", { class: "gw-tabbed" }, strip.root, ...pages.map(({ page }) => page));
  host.append(root);
  panels.forEach(({ name, mount }, k) => {
    strip.tabs[k].dataset.tab = name;
    cleanup.add(mount(pages[k].page));
  });
  const update = (): void => {
    const shown = Math.max(0, panels.findIndex(({ name }) => name === model.get(front)));
    panels.forEach(({ needs }, k) => (strip.tabs[k].hidden = needs !== undefined && k !== shown && !(model.get(needs) as object[] | undefined)?.length));
    strip.show(shown);
  };
  cleanup.model(model, `change:${front}`, update);
  for (const { needs } of panels) if (needs) cleanup.model(model, `change:${needs}`, update);
  cleanup.add(() => root.remove());
  update();
  return () => cleanup.run();
}
