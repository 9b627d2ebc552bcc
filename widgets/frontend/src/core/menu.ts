// What opens below a button: a panel with controls, or a menu of entries. It closes on Escape, and when the focus goes
// elsewhere.

import { button, element, textButton } from "./dom";
import css from "./menu.css";
import { addStyle } from "./style";

addStyle(css);

export interface Popup {
  root: HTMLElement;
  opener: HTMLButtonElement;
  panel: HTMLElement;
  /** Opens or closes; `fill` is called before it opens. */
  show(open: boolean): void;
}

export function popup(path: string, label: string, fill: (panel: HTMLElement) => void): Popup {
  const panel = element("div", { class: "gw-popup", role: "group", "aria-label": label, hidden: true });
  const show = (open: boolean): void => {
    if (open) fill(panel);
    panel.hidden = !open;
    opener.setAttribute("aria-expanded", String(open));
    if (open) (panel.querySelector<HTMLElement>("[role=menuitemradio][aria-checked=true]") ?? panel.querySelector<HTMLElement>("input, [role^=menuitem]"))?.focus();
  };
  const opener = button(path, label, () => show(panel.hidden));
  opener.setAttribute("aria-expanded", "false");
  // It takes the focus of clicks between the controls, so that only those elsewhere close it.
  const root = element("div", { class: "gw-popup-slot", tabindex: -1 }, opener, panel);
  root.addEventListener("focusout", (event) => {
    if (!panel.hidden && !root.contains(event.relatedTarget as Node | null)) show(false);
  });
  root.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || panel.hidden) return;
    opener.focus();
    show(false);
    event.preventDefault();
    event.stopPropagation();
  });
  return { root, opener, panel, show };
}

export interface Entry {
  label: string;
  /** Undefined for an action, else whether it is on: a box of its own, or one of the choices of its section. */
  checked?: boolean;
  disabled?: boolean;
  run: () => void;
}

export interface Section {
  title: string;
  /** Of the entries with a state, exactly one is on. */
  choice?: boolean;
  entries: Entry[];
}

/** A menu as the ARIA menu-button pattern asks: arrow keys move. `sections` says what is in it each time it opens. */
export function menuButton(path: string, label: string, sections: () => Section[]): Popup {
  const made = popup(path, label, (panel) => panel.replaceChildren(...sections().map(group)));
  const { root, opener, panel, show } = made;
  panel.setAttribute("role", "menu");
  opener.setAttribute("aria-haspopup", "menu");

  function group({ title, choice, entries }: Section): HTMLElement {
    const items = entries.map(({ label, checked, disabled, run }) => {
      const role = checked === undefined ? "menuitem" : choice ? "menuitemradio" : "menuitemcheckbox";
      const act = (): void => {
        opener.focus();
        show(false);
        run();
      };
      return textButton("gw-menu-item", label, act, { role, disabled, tabindex: -1, "aria-checked": checked === undefined ? undefined : String(checked) });
    });
    return element("div", { role: "group", "aria-label": title }, element("div", { class: "gw-menu-title", "aria-hidden": "true" }, title), ...items);
  }

  root.addEventListener("keydown", (event) => {
    const all = [...panel.querySelectorAll<HTMLElement>("[role^=menuitem]:enabled")];
    const at = all.indexOf(event.target as HTMLElement);
    if (panel.hidden && event.key === "ArrowDown") show(true);
    else {
      const next = { ArrowDown: at + 1, ArrowUp: at - 1 + all.length, Home: 0, End: all.length - 1 }[event.key];
      if (panel.hidden || next === undefined || !all.length) return;
      all[next % all.length].focus();
    }
    event.preventDefault();
    event.stopPropagation();
  });
  return made;
}
