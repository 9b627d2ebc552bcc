// A button with a small panel below it, which closes on Escape and when the focus goes elsewhere.

import { button, element } from "../ui/dom";

export interface Menu {
  root: HTMLElement;
  panel: HTMLElement;
  close(): void;
}

/** `fill` is called whenever the panel opens. */
export function menu(path: string, label: string, fill: (panel: HTMLElement) => void): Menu {
  const panel = element("div", { class: "gw-menu-panel", role: "group", "aria-label": label, hidden: true });
  const show = (open: boolean): void => {
    if (open) fill(panel);
    panel.hidden = !open;
    opener.setAttribute("aria-expanded", String(open));
  };
  const opener = button(path, label, () => show(panel.hidden));
  opener.setAttribute("aria-expanded", "false");
  const root = element("div", { class: "gw-menu", tabindex: -1 }, opener, panel);
  root.addEventListener("focusout", (event) => {
    if (!root.contains(event.relatedTarget as Node | null)) show(false);
  });
  root.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || panel.hidden) return;
    show(false);
    opener.focus();
    event.stopPropagation();
  });
  return { root, panel, close: () => show(false) };
}
