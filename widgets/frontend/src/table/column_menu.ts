// The menu of columns: a check box for each, and one choice for those that the width has room for.

import { Cleanup, commit, type Model } from "../ui/afm";
import { action, button, element, ICONS } from "../ui/dom";
import { COLUMNS } from "./columns";

/** `shown` says which columns are shown now, whoever chose them; a press elsewhere in the panel closes the menu. */
export function mountColumnMenu(host: HTMLElement, panel: HTMLElement, model: Model, shown: () => readonly string[]): { update: () => void; remove: () => void } {
  const cleanup = new Cleanup();
  const boxes = COLUMNS.map(({ name, title, hint }) => {
    const box = element("input", { type: "checkbox" });
    box.addEventListener("change", () => {
      const rest = shown().filter((other) => other !== name);
      commit(model, "table_columns", box.checked ? [...rest, name] : rest);
    });
    return { name, box, label: element("label", { class: "gw-columns-item", title: hint }, box, title) };
  });
  const groups = element("input", { type: "checkbox" });
  groups.addEventListener("change", () => commit(model, "table_groups", groups.checked));
  const automatic = action("Fit the width", () => commit(model, "table_columns", []));
  const menu = element(
    "div",
    { class: "gw-columns-menu", role: "group", "aria-label": "Columns", hidden: true },
    ...boxes.map(({ label }) => label),
    element("label", { class: "gw-columns-item" }, groups, "Group by scope"),
    automatic,
  );
  const opener = button(ICONS.more, "Columns", () => toggle(menu.hidden));
  opener.setAttribute("aria-expanded", "false");
  const root = element("div", { class: "gw-columns" }, opener, menu);
  host.append(root);

  function toggle(open: boolean): void {
    menu.hidden = !open;
    opener.setAttribute("aria-expanded", String(open));
    if (open) boxes[0].box.focus();
  }

  cleanup.dom(root, "keydown", (event) => {
    if (event.key !== "Escape" || menu.hidden) return;
    toggle(false);
    opener.focus();
    event.stopPropagation();
  });
  cleanup.dom(root, "focusout", (event) => {
    if (event.relatedTarget && !root.contains(event.relatedTarget as Node)) toggle(false);
  });
  cleanup.dom(panel, "pointerdown", (event) => {
    if (!root.contains(event.target as Node)) toggle(false);
  });
  cleanup.add(() => root.remove());

  const update = (): void => {
    const now = shown();
    for (const { name, box } of boxes) {
      box.checked = now.includes(name);
      box.disabled = now.length === 1 && box.checked; // no column at all would mean those that fit
    }
    groups.checked = model.get("table_groups") !== false;
    automatic.disabled = !((model.get("table_columns") as string[] | undefined) ?? []).length;
  };
  return { update, remove: () => cleanup.run() };
}
