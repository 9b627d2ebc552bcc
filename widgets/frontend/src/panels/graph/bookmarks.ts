// Bookmarks: what is selected and open, and the place of the window, under a name, in the trait `views`.

import { leaf } from "./model/names";
import type { Viewport } from "./picture/viewport";
import { commit, type Model } from "../../core/afm";
import type { Section } from "../../core/menu";

export interface View {
  name: string;
  selected?: string;
  expanded?: string[] | null;
  place?: number[];
}

const viewsOf = (model: Model): View[] => (model.get("views") ?? []) as View[];

/** Keeps what is in sight, named after what is selected. */
export function keepView(model: Model, { x, y, scale }: Viewport): void {
  const views = viewsOf(model);
  const selected = String(model.get("selected") ?? "");
  const wanted = selected ? leaf(selected.replace(/\/$/, "")) : `view ${views.length + 1}`;
  const taken = new Set(views.map(({ name }) => name));
  let name = wanted;
  for (let k = 2; taken.has(name); k++) name = `${wanted} (${k})`;
  commit(model, "views", [...views, { name, selected, expanded: (model.get("expanded") ?? null) as string[] | null, place: [x, y, scale] }]);
}

/** Opens and selects what a bookmark says; the caller moves the window. */
export function recallView(model: Model, { selected, expanded }: View): void {
  if (expanded !== undefined) commit(model, "expanded", expanded);
  commit(model, "selected", selected ?? "");
}

/** The bookmarks as parts of a menu. */
export function bookmarks(model: Model, { keep, recall }: { keep(): void; recall(view: View): void }): Section[] {
  if (model.get("views") === undefined) return [];
  const views = viewsOf(model);
  const forget = (gone: View): void => commit(model, "views", viewsOf(model).filter(({ name }) => name !== gone.name));
  return [
    { title: "Bookmarks", entries: [...views.map((view) => ({ label: view.name, run: () => recall(view) })), { label: "Keep what is in sight", run: keep }] },
    ...(views.length ? [{ title: "Remove a bookmark", entries: views.map((view) => ({ label: `Remove ${view.name}`, run: () => forget(view) })) }] : []),
  ];
}
