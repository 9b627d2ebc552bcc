// The buttons and menus above the drawing. Menus set traits, so what they show is what code sees and sets.

import type { GraphModel } from "./model/model";
import { MEASURED, type ColorBy, type OverlaySpec } from "./picture/overlay";
import { bookmarks, type View } from "./bookmarks";
import { FORMATS, type Format } from "./save";
import type { Paths } from "./model/trace";
import { ask, type Cleanup, commit, isSaved, type Model, type Named } from "../../core/afm";
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
  selected(): { label: string; run(): void }[];
  zoom(factor: number): void;
  fit(): void;
  save(format: Format): void;
  /** Keeps what is in sight as a bookmark, and goes to one. */
  keep(): void;
  recall(view: View): void;
}

const COLORS: [ColorBy, string][] = [
  ["category", "Kind of op"], ["dtype", "Dtype"], ["size", "Output size"], ["bytes", "Bytes of results"], ["parameters", "Parameters"], ["flops", "Arithmetic (FLOP)"],
];
const MEASURES: [ColorBy, string][] = [
  ["time", "Time"], ["device", "Device, and what runs it"], ["gradient", "Norm of the gradient"], ["nan", "Share of NaN and Inf"], ["zero", "Share of zeros"], ["saturated", "Share of saturated elements"],
];
const PATHS: [Paths, string][] = [
  ["none", "Nothing"],
  ["upstream", "All that leads into it"],
  ["downstream", "All that comes out of it"],
  ["both", "Both"],
];
/** Three circles that overlap: a choice of colours. */
/** A sheet of lines with a lens. */
const INSPECT = "M2.5 2.5h11v5M2.5 2.5v11h5M5 5.5h6M5 8h2.5M10.5 8.5a2.2 2.2 0 1 0 0 4.4a2.2 2.2 0 1 0 0-4.4M12.1 12.3l1.7 1.7";
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
    const by = model.get("color_by") as ColorBy;
    const knows = model.get("inspector") !== undefined; // widgets of older pages know less
    const facts = COLORS.filter(([color]) => knows || !["bytes", "flops"].includes(color));
    if (given.values) facts.push(["overlay", given.title ?? "Overlay"]);
    // A page without a kernel has what was measured when it was saved.
    const measured = (model.get("measured") ?? {}) as { by?: ColorBy };
    const measures = MEASURES.filter(([color]) => knows && (!isSaved(model) || color === measured.by));
    const again = MEASURED.includes(by) && !isSaved(model) ? [{ label: "Measure again", run: () => ask(model, "colors.measure", { by }) }] : [];
    return [
      { title: "Colour by", choice: true, entries: facts.map((entry) => choice("color_by", entry)) },
      ...(measures.length ? [{ title: "Measured", choice: true, entries: [...measures.map((entry) => choice("color_by", entry)), ...again] }] : []),
    ];
  });
  const selected = (): Section[] => {
    const entries = actions.selected();
    return entries.length ? [{ title: "Selected", entries }] : [];
  };
  const more = menuButton(ICONS.more, "More", () => [
    ...selected(),
    { title: "Show", entries: [toggle("minimap", "Map of the whole drawing", true), toggle("follow", "Open scopes around the current node", false)] },
    ...bookmarks(model, actions),
    { title: "Save as", entries: FORMATS.map((format) => ({ label: format, run: () => actions.save(format) })) },
  ]);
  const inspector = button(INSPECT, "Inspector ( I )", () => commit(model, "inspector", !model.get("inspector")));
  const scopes = graph.scopes.length > 1;
  const derived = graph.layer.reduce((sum, layer) => sum + Number(layer !== 0), 0);
  const gradients = button(ICONS.gradient, "Gradients beside their nodes", () => commit(model, "gradients", !model.get("gradients")));
  gradients.setAttribute("aria-pressed", String(Boolean(model.get("gradients"))));
  // A page without a kernel has the nodes that it was saved with.
  gradients.disabled = isSaved(model);
  const groups: HTMLElement[][] = [
    [button(ICONS.search, "Find nodes ( / )", actions.find), outline, ...(model.get("inspector") === undefined ? [] : [inspector])],
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
    inspector.setAttribute("aria-pressed", String(Boolean(model.get("inspector"))));
  };
  update();
  cleanup.model(model, "change:gradients", () => gradients.setAttribute("aria-pressed", String(Boolean(model.get("gradients")))));
  cleanup.model(model, "change:paths", update);
  cleanup.model(model, "change:color_by", update);
  cleanup.model(model, "change:inspector", update);
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
