// The menu of columns: a check box for each, and one choice for those that the width has room for.

import { commit, type Model } from "../../core/afm";
import { action, checkbox, element, ICONS } from "../../core/dom";
import { popup } from "../../core/menu";
import { COLUMNS, type ColumnName } from "./columns";

/** `shown` says which columns are shown now, whoever chose them; `update` has to follow it. */
export function columnMenu(model: Model, shown: () => readonly ColumnName[]): { root: HTMLElement; update: () => void } {
  const boxes = COLUMNS.map(({ name, title, hint }) => {
    const box = checkbox((on) => {
      const rest = shown().filter((other) => other !== name);
      commit(model, "table_columns", on ? [...rest, name] : rest);
    });
    return { name, box, label: element("label", { title: hint }, box, title) };
  });
  const groups = checkbox((on) => commit(model, "table_groups", on));
  const automatic = action("Fit the width", () => commit(model, "table_columns", []));
  const { root, panel } = popup(ICONS.more, "Columns", update);
  root.classList.add("gw-columns");
  panel.append(...boxes.map(({ label }) => label), element("label", {}, groups, "Group by scope"), automatic);

  function update(): void {
    const now = shown();
    for (const { name, box } of boxes) {
      box.checked = now.includes(name);
      box.disabled = now.length === 1 && box.checked; // no column at all would mean those that fit
    }
    groups.checked = model.get("table_groups") !== false;
    automatic.disabled = !((model.get("table_columns") as string[] | undefined) ?? []).length;
  }
  return { root, update };
}
