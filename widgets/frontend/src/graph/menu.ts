// A button that opens a menu below itself, as the ARIA menu-button pattern asks: arrow keys move, Escape closes.

import { button, element } from "../ui/dom";

export interface Entry {
  label: string;
  /** Undefined for an action, else whether it is on: a box of its own, or one of the choices of its section. */
  checked?: boolean;
  run: () => void;
}

export interface Section {
  title: string;
  /** Of the entries with a state, exactly one is on. */
  choice?: boolean;
  entries: Entry[];
}

/** `sections` is asked each time the menu opens, so that it shows the state of that moment. */
export function menuButton(path: string, label: string, sections: () => Section[]): { root: HTMLElement; button: HTMLButtonElement } {
  let menu: HTMLElement | undefined;
  const close = (): void => {
    const open = menu;
    menu = undefined; // before the removal, which takes the focus away and so asks again
    open?.remove();
    opener.setAttribute("aria-expanded", "false");
  };
  const show = (): void => {
    menu = element("div", { class: "gw-choices", role: "menu", "aria-label": label });
    for (const { title, choice, entries } of sections()) {
      const group = element("div", { role: "group", "aria-label": title }, element("div", { class: "gw-choices-title", "aria-hidden": "true" }, title));
      for (const { label, checked, run } of entries) {
        const role = checked === undefined ? "menuitem" : choice ? "menuitemradio" : "menuitemcheckbox";
        const item = element("button", { type: "button", class: "gw-choices-item", role, tabindex: -1, "aria-checked": checked === undefined ? undefined : String(checked) }, label);
        item.addEventListener("click", () => {
          close();
          opener.focus();
          run();
        });
        group.append(item);
      }
      menu.append(group);
    }
    root.append(menu);
    opener.setAttribute("aria-expanded", "true");
    (menu.querySelector<HTMLElement>('[role=menuitemradio][aria-checked=true]') ?? items()[0])?.focus();
  };
  const items = (): HTMLElement[] => [...(menu?.querySelectorAll<HTMLElement>("[role^=menuitem]") ?? [])];
  const opener = button(path, label, () => (menu ? close() : show()));
  opener.setAttribute("aria-haspopup", "menu");
  opener.setAttribute("aria-expanded", "false");
  const root = element("span", { class: "gw-choices-slot" }, opener);
  root.addEventListener("focusout", (event) => {
    if (!root.contains(event.relatedTarget as Node | null)) close();
  });
  root.addEventListener("keydown", (event) => {
    if (!menu) {
      if (event.key !== "ArrowDown") return;
      show();
    } else if (event.key === "Escape") {
      close();
      opener.focus();
    } else {
      const all = items();
      const at = all.indexOf(event.target as HTMLElement);
      const next = { ArrowDown: at + 1, ArrowUp: at - 1 + all.length, Home: 0, End: all.length - 1 }[event.key];
      if (next === undefined) return;
      all[next % all.length].focus();
    }
    event.preventDefault();
    event.stopPropagation();
  });
  return { root, button: opener };
}
