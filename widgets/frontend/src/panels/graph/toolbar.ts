// The buttons and menus above the drawing. Menus set traits, so what they show is what code sees and sets.

import type { GraphModel } from "./model";
import type { ColorBy, OverlaySpec } from "./overlay";
import { FORMATS, type Format } from "./save";
import type { Paths } from "./trace";
import { type Cleanup, commit, isSaved, type Model, type Named } from "../../core/afm";
import type { Traits } from "../../core/contract";
import { button, element, ICONS } from "../../core/dom";
import { counted, grouped } from "../../core/format";
import { menuButton, type Section } from "../../core/menu";

export interface Actions {
  find(): void;
  /** Shows or hides the outline, and says whether it is shown. */
  outline(): boolean;
  open(scopes: number[]): void;
  /** What opening or closing the selection would be called, and does; undefined where nothing opens. */
  selected(): { label: string; run(): void } | undefined;
  zoom(factor: number): void;
  fit(): void;
  save(format: Format): void;
}

const PATHS: [Paths, string][] = [
  ["none", "Nothing"],
  ["upstream", "All that leads into it"],
  ["downstream", "All that comes out of it"],
  ["both", "Both"],
];
/** Three circles that overlap: a choice of colours. */
const PALETTE = "M8 2.5a3 3 0 1 0 0 6a3 3 0 1 0 0-6M5.5 7.5a3 3 0 1 0 0 6a3 3 0 1 0 0-6M10.5 7.5a3 3 0 1 0 0 6a3 3 0 1 0 0-6";

export function mountToolbar(graph: GraphModel, model: Model, cleanup: Cleanup, actions: Actions): HTMLElement {
  const toggle = (trait: Named<boolean>, label: string, otherwise: boolean) => {
    const checked = Boolean(model.get(trait) ?? otherwise);
    return { label, checked, run: () => commit(model, trait, !checked) };
  };
  const choice = <K extends keyof Traits>(trait: K, [value, label]: [Traits[K], string]) => ({
    label, checked: model.get(trait) === value, run: () => commit(model, trait, value),
  });

  const outline = button(ICONS.outline, "Outline", () => outline.setAttribute("aria-pressed", String(actions.outline())));
  outline.setAttribute("aria-pressed", "false");
  const paths = menuButton(ICONS.path, "Paths", () => [
    { title: "Highlight around the selection", choice: true, entries: PATHS.map((entry) => choice("paths", entry)) },
  ]);
  const colors = menuButton(PALETTE, "Colour by", () => {
    const given = (model.get("overlay") ?? {}) as Partial<OverlaySpec>;
    const entries: [ColorBy, string][] = [["category", "Kind of op"], ["size", "Output size"], ["parameters", "Parameters"]];
    if (given.values) entries.push(["overlay", given.title ?? "Overlay"]);
    return [{ title: "Colour by", choice: true, entries: entries.map((entry) => choice("color_by", entry)) }];
  });
  const selected = (): Section[] => {
    const entry = actions.selected();
    return entry ? [{ title: "Selected", entries: [entry] }] : [];
  };
  const more = menuButton(ICONS.more, "More", () => [
    ...selected(),
    { title: "Show", entries: [toggle("minimap", "Map of the whole drawing", true), toggle("follow", "Open scopes around the current node", false)] },
    { title: "Save as", entries: FORMATS.map((format) => ({ label: format, run: () => actions.save(format) })) },
  ]);
  const scopes = graph.scopes.length > 1;
  const derived = graph.layer.reduce((sum, layer) => sum + Number(layer !== 0), 0);
  const gradients = button(ICONS.gradient, "Gradients beside their nodes", () => commit(model, "gradients", !model.get("gradients")));
  gradients.setAttribute("aria-pressed", String(Boolean(model.get("gradients"))));
  // A page without a kernel has the nodes that it was saved with.
  gradients.disabled = isSaved(model);
  const groups: HTMLElement[][] = [
    [button(ICONS.search, "Find nodes ( / )", actions.find), outline],
    scopes
      ? [
          button(ICONS.open, "Open all scopes", () => actions.open(graph.scopes.map((_, s) => s).filter((s) => s > 0 && graph.scopes[s].of < 0 && graph.scopes[s].frame < 0 && graph.scopes[s].kind !== "card"))),
          button(ICONS.close, "Close all scopes", () => actions.open([])),
        ]
      : [],
    [
      hideWhenNarrow(button(ICONS.minus, "Zoom out", () => actions.zoom(1 / 1.3))),
      hideWhenNarrow(button(ICONS.plus, "Zoom in", () => actions.zoom(1.3))),
      button(ICONS.fit, "Fit the drawing", actions.fit),
    ],
    [gradients, paths.root, colors.root, more.root],
  ];
  const update = (): void => {
    paths.opener.toggleAttribute("data-active", (model.get("paths") ?? "none") !== "none");
    colors.opener.toggleAttribute("data-active", (model.get("color_by") ?? "category") !== "category");
  };
  update();
  cleanup.model(model, "change:gradients", () => gradients.setAttribute("aria-pressed", String(Boolean(model.get("gradients")))));
  cleanup.model(model, "change:paths", update);
  cleanup.model(model, "change:color_by", update);
  return element(
    "header", { class: "gw-toolbar" },
    element("span", { class: "gw-title", title: graph.spec.name }, graph.spec.name),
    element("span", { class: "gw-subtitle" }, counted(graph.n - derived, "node") + (derived ? ` + ${grouped(derived)} derived` : "")),
    element("span", { class: "gw-space" }),
    ...groups.filter((group) => group.length).map((group) => element("span", { class: "gw-group", role: "group" }, ...group)),
  );
}

/** The wheel, a pinch and the keys + and − do the same where there is no room for the button. */
function hideWhenNarrow(node: HTMLElement): HTMLElement {
  node.classList.add("gw-when-wide");
  return node;
}
