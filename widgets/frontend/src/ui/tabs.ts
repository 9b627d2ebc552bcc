// Panels one behind the other, with a tab for each: arrow keys move between tabs, as the ARIA tab pattern asks.

import { Cleanup, commit, type Model } from "./afm";
import { element } from "./dom";

export interface Tab {
  name: string;
  title: string;
  mount: (host: HTMLElement) => () => void;
}

/** Tabs over the trait `tab`. Every panel is mounted at once, so that all of them follow the kernel. */
export function mountTabs(host: HTMLElement, model: Model, tabs: readonly Tab[]): () => void {
  const cleanup = new Cleanup();
  const list = element("div", { class: "gw-tabs", role: "tablist", "aria-label": "Panels" });
  const root = element("div", { class: "gw-tabbed" }, list);
  host.append(root);
  const parts = tabs.map(({ name, title, mount }) => {
    const tab = element("button", { type: "button", class: "gw-tab", role: "tab", "data-tab": name }, title);
    const page = element("div", { class: "gw-page", role: "tabpanel", "aria-label": title });
    tab.addEventListener("click", () => commit(model, "tab", name));
    list.append(tab);
    root.append(page);
    cleanup.add(mount(page));
    return { name, tab, page };
  });
  const update = (): void => {
    const wanted = String(model.get("tab"));
    const shown = parts.some(({ name }) => name === wanted) ? wanted : parts[0].name;
    for (const { name, tab, page } of parts) {
      tab.setAttribute("aria-selected", String(name === shown));
      tab.tabIndex = name === shown ? 0 : -1;
      page.hidden = name !== shown;
    }
  };
  cleanup.dom(list, "keydown", (event) => {
    const at = parts.findIndex(({ tab }) => tab === event.target);
    const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (at < 0 || !move) return;
    const next = parts[(at + move + parts.length) % parts.length];
    commit(model, "tab", next.name);
    next.tab.focus();
    event.preventDefault();
    event.stopPropagation();
  });
  cleanup.model(model, "change:tab", update);
  cleanup.add(() => root.remove());
  update();
  return () => cleanup.run();
}
