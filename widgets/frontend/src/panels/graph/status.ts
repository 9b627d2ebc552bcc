// The line below the drawing: what is selected, with links along its edges; the colours and what they mean.

import { describe } from "./model/describe";
import type { Drawing } from "./picture/drawing";
import type { GraphModel } from "./model/model";
import { leaf } from "./model/names";
import type { Overlay } from "./picture/overlay";
import type { Look } from "./picture/look";
import { kindShade } from "./picture/palette";
import { between, outputsOf, sourcesOf } from "./model/trace";
import { cutInto } from "../../core/cut";
import { element, textButton } from "../../core/dom";
import { bytesText, compact, counted, grouped } from "../../core/format";
import { showSource } from "../../core/source";

const CATEGORIES: [string, string][] = [
  ["input", "input"], ["parameter", "parameter"], ["linear", "linear"], ["activation", "activation"], ["norm", "normalisation"],
  ["math", "arithmetic"], ["reduce", "reduction"], ["shape", "shape"], ["loss", "loss"], ["random", "random"], ["control", "control flow"], ["constant", "constant"],
  ["adapter", "adapter"],
];
/** Links to this many inputs and outputs; the others are counted. */
const LINKS = 6;

/** What the drawing shows, as far as it is put into words. */
export interface Shown {
  drawing: Drawing;
  look: Pick<Look, "selected" | "marks" | "frozen">;
  overlay: Overlay | undefined;
  /** The clicked line, and the far end of a path from the selection; -1 for none. */
  line: number;
  other: number;
}

export class StatusLine {
  private readonly text = element("div", { class: "gw-status-text", role: "status" });
  private readonly scale = element("div", { class: "gw-status-scale" });
  readonly root = element("div", { class: "gw-status" }, this.text, this.scale);

  /** `hasSource` says whether lines can be gone to; `explain` answers why a gradient is what it is, where somebody can. */
  constructor(
    private readonly model: GraphModel, private readonly visit: (item: number) => void, private readonly hasSource: () => boolean,
    private readonly explain?: (node: number) => void,
  ) {}

  show(shown: Shown): void {
    const { model, visit } = this;
    const { drawing, look, overlay, line } = shown;
    if (line >= 0) {
      const { pieceTensor, pieceWeight } = drawing.scene;
      const { from, to } = drawing.ends(line);
      this.text.replaceChildren(...aboutLine(model, pieceTensor[line], pieceWeight[line], from, to, visit));
    } else if (look.selected >= 0) {
      this.text.replaceChildren(...aboutItem(model, look.selected, notesOn(model, look.selected, shown), visit));
      this.offerSource(look.selected);
      this.offer(look.selected);
    }
    else this.text.replaceChildren(...(overlay ? [] : legend(model, drawing.places.keys())));
  }

  /** Where the page can go to lines, a node leads to its own. */
  private offerSource(item: number): void {
    const { model } = this;
    const node = model.nodeAt(item);
    if (node < 0 || !this.hasSource()) return;
    const go = (): void => void showSource(this.root, model.spec.name, model.spec.names[node]);
    this.text.append(textButton("gw-hop", "line", go, { title: "Go to the line that made this node" }));
  }

  /** A gradient is explained of what the graph itself has, and what has one. */
  private offer(item: number): void {
    const { model, explain } = this;
    const node = model.nodeAt(item);
    if (!explain || node < 0 || model.holder[node] >= 0 || model.layer[node] !== 0 || model.kindOf(node) === "constant") return;
    if (!/^(f|bf|c)\d/.test(model.outputSpecs(node)[0] ?? "")) return;
    this.text.append(textButton("gw-hop", "why this gradient?", () => explain(node), { title: "Say why the gradient of the loss is zero, small or large here" }));
  }

  /** The scale of an overlay, or why there is none. */
  showScale(overlay: Overlay | undefined, dark: boolean, waiting = ""): void {
    this.scale.replaceChildren(...(overlay ? [scaleBar(overlay, dark)] : waiting ? [element("span", { class: "gw-scale", role: "status" }, waiting)] : []));
  }

  /** An item in one line. */
  itemText(item: number, shown: Shown): string {
    return [nameOf(this.model, item), details(this.model, item), ...notesOn(this.model, item, shown)].join(" · ");
  }

  lineText(line: number, drawing: Drawing): string {
    const { from, to } = drawing.ends(line);
    const list = (items: number[]): string => items.map((item) => nameOf(this.model, item)).join(", ");
    return `${list(from)} → ${list(to)}`;
  }
}

/** `matmul → f32[B, 6]`, or what a scope holds. */
function details(model: GraphModel, item: number): string {
  if (model.isTwin(item)) return `gradient of ${nameOf(model, model.pairOf(item))} · ${describe(model, item).note}`;
  const node = model.nodeAt(item);
  if (node < 0) return [model.scopes[item - model.n].kind, describe(model, item).note].filter(Boolean).join(" · ");
  const of = model.origin[node] < 0 ? "" : `in the gradient of ${nameOf(model, model.origin[node])} · `;
  return `${of}${model.spec.calls[model.call[node]]} → ${model.outputSpecs(node).join(", ")}`;
}

function nameOf(model: GraphModel, item: number): string {
  if (model.isTwin(item)) return `∂ ${nameOf(model, model.pairOf(item))}`;
  const card = describe(model, item).card;
  if (card && !card.title) return describe(model, item).title; // its path is that of a node, which says less
  return model.itemName(item).replace(/\/$/, "");
}

/** States of an item in a few words each. */
function notesOn(model: GraphModel, item: number, { look: { marks, frozen, selected }, overlay, other }: Shown): string[] {
  const notes = [valueText(overlay, item)];
  if (frozen.has(item)) notes.push("frozen");
  if (marks?.current === item) notes.push("runs next");
  if (marks?.stops.has(item)) notes.push("breakpoint");
  if (marks?.blamed.has(item)) notes.push("gradient at fault");
  else if (marks?.tainted?.items[item]) notes.push("inherits a wrong gradient");
  if (item === selected && other >= 0) {
    const count = between(model, item, other).reduce((sum, flag) => sum + flag, 0);
    notes.push(count ? `paths to ${nameOf(model, other)}: ${counted(count, "node")}` : `no path to ${nameOf(model, other)}`);
  }
  return notes.filter(Boolean);
}

/** A value of an overlay as text, "" where an item has none. */
export function valueText(overlay: Overlay | undefined, item: number): string {
  const value = overlay ? overlay.values[item] : NaN;
  if (!overlay || Number.isNaN(value)) return "";
  if (overlay.kinds.length) return `${overlay.title} ${overlay.kinds[value]}`;
  if (overlay.unit === "B") return `${overlay.title} ${bytesText(value)}`;
  const unit = overlay.unit && !overlay.unit.includes(" ") ? ` ${overlay.unit}` : "";
  return `${overlay.title} ${Number.isInteger(value) && Math.abs(value) < 1e15 ? grouped(value) : compact(value)}${unit}`;
}

/** The categories that are drawn. */
function legend(model: GraphModel, drawn: Iterable<number>): HTMLElement[] {
  const items = [...drawn];
  const used = new Set(items.filter((item) => item < model.n).map((item) => model.category(item)));
  for (const item of items) for (const category of describe(model, item).card?.categories ?? []) used.add(category);
  const shown: [string, string][] = items.some((item) => model.isTwin(item)) ? [...CATEGORIES, ["gradient", "gradient"]] : CATEGORIES;
  used.add("gradient");
  if (items.some((item) => model.adapter(item))) used.add("adapter");
  return shown.filter(([category]) => used.has(category)).map(([category, label]) => {
    const dot = element("span", { class: "gw-dot" });
    dot.style.setProperty("--gw-dot", `var(--gw-c-${category})`);
    return element("span", { class: "gw-legend" }, dot, label);
  });
}

/** The scale of an overlay: its title, a bar of its colours, and the values along it. */
function scaleBar(overlay: Overlay, dark: boolean): HTMLElement {
  if (overlay.kinds.length) return kindsOf(overlay);
  if (overlay.empty) return element("span", { class: "gw-scale" }, `${overlay.title}: nothing to show`);
  const bar = element("span", { class: "gw-scale-bar" });
  bar.style.background = `linear-gradient(to right, ${overlay.ramp(dark).filter((_, k) => k % 7 === 0).map(({ fill }) => fill).join(", ")})`;
  const body = element("span", { class: "gw-scale-body" }, bar, element("span", { "data-end": "low" }, short(overlay.low)));
  if (overlay.high > overlay.low) body.append(element("span", { "data-end": "high" }, short(overlay.high)));
  let room = true; // for one value between the ends
  for (const value of overlay.marks()) {
    const place = overlay.place(value);
    const mark = element("i", {});
    mark.style.left = `${100 * place}%`;
    body.append(mark);
    if (!room || place < 0.42 || place > 0.56) continue;
    const label = element("span", {}, short(value));
    label.style.left = mark.style.left;
    body.append(label);
    room = false;
  }
  const unit = overlay.unit ? ` (${overlay.unit})` : "";
  const spoken = `${overlay.title}${unit}: ${compact(overlay.low)} to ${compact(overlay.high)}, ${overlay.scale} scale`;
  return element(
    "span", { class: "gw-scale", role: "img", "aria-label": spoken, title: spoken },
    element("span", { class: "gw-scale-title" }, overlay.title + (overlay.unit && !overlay.unit.includes(" ") ? `, ${overlay.unit}` : "")),
    body,
  );
}

/** A swatch for each kind. */
function kindsOf({ title, kinds }: Overlay): HTMLElement {
  const swatches = kinds.map((kind, k) => {
    const dot = element("span", { class: "gw-dot" });
    dot.style.setProperty("--gw-dot", kindShade(k, kind === "several").fill);
    return element("span", { class: "gw-legend" }, dot, kind);
  });
  return element("span", { class: "gw-kinds", role: "img", "aria-label": `${title}: ${kinds.join(", ")}` }, element("span", { class: "gw-scale-title" }, title), ...swatches);
}

/** Three digits, and all of a count. */
function short(value: number): string {
  return compact(Number.isInteger(value) ? value : Number(value.toPrecision(3)));
}

/** Names to go to, after an arrow that says in which direction they lie. */
function links(model: GraphModel, label: string, sign: string, items: readonly number[], visit: (item: number) => void): HTMLElement[] {
  if (!items.length) return [];
  const buttons = items.slice(0, LINKS).map((item) => {
    const name = nameOf(model, item);
    return textButton("gw-hop", leaf(name), () => visit(item), { title: `Go to ${name}`, "aria-label": `${label} ${name}` });
  });
  const more = items.length > LINKS ? [`+${items.length - LINKS}`] : [];
  return [element("span", { class: "gw-hops" }, element("span", { "aria-hidden": "true" }, sign), ...buttons, ...more)];
}

/** What is said about a selected item. */
function aboutItem(model: GraphModel, item: number, notes: readonly string[], visit: (item: number) => void): HTMLElement[] {
  // What a gradient takes from a forward node is one link, to the gradient that stands beside it.
  const own = model.nodeAt(item);
  const outputs = own < 0 ? [] : outputsOf(model, own).filter((node) => model.layer[own] !== 0 || model.layer[node] === 0);
  const inputs = own < 0 ? [] : sourcesOf(model, item);
  const beside = model.pairOf(item);
  const ends = [
    ...links(model, "Input", "from", inputs, visit),
    ...links(model, "Output", "to", outputs, visit),
    ...(beside < 0 ? [] : links(model, model.isTwin(item) ? "Node" : "Gradient", model.isTwin(item) ? "beside" : "gradient", [beside], visit)),
  ];
  return [
    cutInto(element("strong", { title: nameOf(model, item) }), nameOf(model, item)),
    ...notes.map((note) => element("span", { class: "gw-chip" }, note)),
    element("span", { class: "gw-detail" }, details(model, item)),
    ...ends,
  ];
}

/** What is said about a line: the tensor that runs through it, where it comes from and where it goes. */
function aboutLine(model: GraphModel, tensor: number, count: number, from: readonly number[], to: readonly number[], visit: (item: number) => void): HTMLElement[] {
  const what = count > 1 ? `${count} tensors` : model.spec.specs[model.specOf[tensor]];
  return [element("strong", {}, what), ...links(model, "Producer", "from", from, visit), ...links(model, "Consumer", "to", to, visit)];
}
