// The property sheet of what is selected: what it is and does, what goes in and out, what it costs, its values, its code.

import { describe } from "./model/describe";
import type { FactStore, TensorValues } from "./model/facts";
import type { GraphModel } from "./model/model";
import { leaf } from "./model/names";
import type { Overlay } from "./picture/overlay";
import { attributesOf } from "./model/query";
import { elements, sizesOf } from "./model/sizes";
import { argumentsOf, membersOf, outputsOf, resultsOf } from "./model/trace";
import { valueText } from "./status";
import { cutInto } from "../../core/cut";
import { button, element, ICONS, textButton } from "../../core/dom";
import { bytesText, compact, counted, grouped } from "../../core/format";
import type { Theme } from "../../core/theme";
import { thumb } from "../../core/thumb";
import { addStyle } from "../../core/style";
import css from "./inspector.css";

addStyle(css);

const LINKS = 12;
const OPS = 8;

export interface InspectorCalls {
  visit(item: number): void;
  close(): void;
  /** Copies what is selected as code; undefined where nothing can. */
  copy?: (item: number) => void;
  /** Goes to where a node was made; undefined where nobody can. */
  source?: (node: number) => void;
}

export class Inspector {
  readonly root = element("aside", { class: "gw-inspector", "aria-label": "Inspector", tabindex: -1, hidden: true });

  constructor(private readonly model: GraphModel, private readonly store: FactStore, private readonly calls: InspectorCalls) {
    this.root.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      calls.close();
      event.stopPropagation();
    });
  }

  show(item: number, overlay: Overlay | undefined, theme: Theme | undefined): void {
    if (this.root.hidden) return;
    const { model } = this;
    const place = this.root.scrollTop;
    const title = item < 0 ? model.spec.name : describe(model, item).title;
    const dot = element("span", { class: "gw-dot" });
    if (item >= 0) dot.style.setProperty("--gw-dot", `var(--gw-c-${describe(model, item).category}, var(--gw-c-math))`);
    const head = element("div", { class: "gw-sheet-head" }, ...(item < 0 ? [] : [dot]), cutInto(element("strong", { title }), title));
    if (item >= 0 && this.calls.copy) head.append(button(ICONS.copy, "Copy as code", () => this.calls.copy!(item)));
    head.append(button(ICONS.cross, "Close the inspector", this.calls.close));
    const node = item < 0 ? -1 : model.nodeAt(item);
    const parts = node >= 0 ? this.aboutNode(item, node, overlay, theme) : this.aboutMany(item, overlay);
    this.root.replaceChildren(head, ...parts);
    this.root.scrollTop = place;
  }

  private aboutNode(item: number, node: number, overlay: Overlay | undefined, theme: Theme | undefined): HTMLElement[] {
    const { model } = this;
    const { facts } = this.store;
    const op = facts?.ops[model.op(node)];
    const attributes = [...attributesOf(model.spec.calls[model.call[node]])];
    const inputs = argumentsOf(model, item).map(({ tensor }) => ({ item: model.nodeOf[tensor], spec: model.spec.specs[model.specOf[tensor]] }));
    const where = facts && model.sent[node] >= 0 ? (facts.places[facts.place[model.sent[node]]] ?? "") : "";
    const line = facts?.lines[model.call[node]] ?? "";
    const made = where && this.calls.source ? textButton("gw-text-link", where, () => this.calls.source!(node), { title: "Go to the line" }) : where;
    return [
      rows(["name", model.spec.names[node]], ["op", model.op(node)], ...(model.origin[node] < 0 ? [] : [["gradient of", this.link(model.origin[node])] as Row]), ...(model.twinOf(item) < 0 ? [] : [["gradient", this.link(model.twinOf(item))] as Row]), ["made at", made]),
      ...(op ? [element("p", { class: "gw-sheet-text" }, op.summary)] : []),
      ...(op?.formula ? [element("pre", { class: "gw-code" }, op.formula)] : []),
      section("Attributes", rows(...attributes.map(([name, value]): Row => [name, value, op?.attributes[name]]))),
      section("Inputs", ...inputs.slice(0, LINKS).map(({ item: from, spec }) => this.tensor(spec, [from])), more(inputs.length)),
      section("Outputs", ...this.results(node)),
      section("Cost", rows(...this.costs([node], item, overlay))),
      section("Values", ...this.values(node, theme)),
      section("Code", ...(line ? [element("pre", { class: "gw-code" }, filled(line, inputs.map(({ item: from }) => variable(model.spec.names[from]))))] : [])),
    ].filter((part) => part.childNodes.length);
  }

  /** A scope, a card or the whole graph. */
  private aboutMany(item: number, overlay: Overlay | undefined): HTMLElement[] {
    const { model } = this;
    const nodes = item < 0 ? Array.from({ length: model.n }, (_, node) => node) : membersOf(model, item);
    const held = nodes.filter((node) => model.kindOf(node) === "variable");
    const ops = new Map<string, number>();
    for (const node of nodes) if (model.kindOf(node) === "array") ops.set(model.op(node), (ops.get(model.op(node)) ?? 0) + 1);
    const most = [...ops].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
    const parameters = held.reduce((sum, node) => sum + elements(model.outputSpecs(node)[0]), 0);
    const results = item < 0 ? [] : resultsOf(model, item);
    const layers = item < 0 ? [] : (describe(model, item).card?.rows ?? []);
    return [
      rows(...(item < 0 ? [] : [["name", model.itemName(item).replace(/\/$/, "")] as Row]), ["holds", counted(nodes.length, "node")], ["parameters", held.length ? `${grouped(parameters)} in ${counted(held.length, "variable")}` : ""]),
      section("Layers", ...layers.map((row) => element("div", {}, row))),
      section("Ops", rows(...most.slice(0, OPS).map(([op, count]): Row => [op, `× ${grouped(count)}`])), more(most.length, OPS)),
      section("Outputs", ...results.slice(0, LINKS).map((tensor) => this.tensor(model.spec.specs[model.specOf[tensor]], [model.nodeOf[tensor]])), more(results.length)),
      section("Cost", rows(...this.costs(nodes, item, overlay))),
    ].filter((part) => part.childNodes.length);
  }

  private costs(nodes: readonly number[], item: number, overlay: Overlay | undefined): Row[] {
    const { facts } = this.store;
    const total = (column: Float64Array): number => nodes.reduce((sum, node) => sum + (column[this.model.sent[node]] || 0), 0); // what is not known is NaN
    const shown = item < 0 ? "" : valueText(overlay, item);
    const own: Row[] = shown ? [[overlay!.title, shown.slice(overlay!.title.length + 1)]] : [];
    if (!facts) return own;
    const [flops, bytes] = [total(facts.flops), total(facts.bytes)];
    const free = this.model.spec.specs.some((spec) => sizesOf(spec).some((size) => !/^\d+$/.test(size)));
    const sizes = !free ? "" : facts.sized || ", free sizes as 1";
    const [unknown, ...others] = nodes.flatMap((node) => facts.uncounted[this.model.sent[node]] ?? []);
    const arithmetic = [flops ? `${compact(flops)} FLOP${sizes}` : "", unknown ? `unknown${nodes.length > 1 ? ` of ${counted(1 + others.length, "node")}` : ""}: ${unknown}` : ""];
    return [["arithmetic", arithmetic.filter(Boolean).join("; ")], ["results", bytes ? bytesText(bytes) + sizes : ""], ...own.filter(([title]) => !/^(arithmetic|bytes)/.test(title))];
  }

  private results(node: number): HTMLElement[] {
    const { model } = this;
    const readers = outputsOf(model, node).filter((reader) => model.layer[reader] === model.layer[node]);
    const specs = model.outputSpecs(node);
    return [...specs.map((spec, k) => this.tensor(spec, k === specs.length - 1 ? readers : [], "read by"))];
  }

  /** A spec, and links to where it comes from or goes. */
  private tensor(spec: string, items: readonly number[], word = "from"): HTMLElement {
    const links = items.slice(0, LINKS).map((item) => this.link(item));
    return element("div", { class: "gw-sheet-tensor" }, element("span", { class: "gw-code" }, spec), ...(links.length ? [word, ...links] : []), items.length > LINKS ? `+${items.length - LINKS}` : "");
  }

  private link(item: number): HTMLElement {
    const name = this.model.itemName(item).replace(/\/$/, "");
    return textButton("gw-text-link", leaf(name), () => this.calls.visit(item), { title: `Go to ${name}` });
  }

  private values(node: number, theme: Theme | undefined): HTMLElement[] {
    const { store } = this;
    if (store.name !== this.model.spec.names[node]) return [];
    const gradient = store.gradient === undefined ? [] : [rows(["gradient", `norm ${compact(store.gradient)} in the last sampled step`])];
    return [...gradient, ...store.values.map((tensor) =>
      element("div", { class: "gw-sheet-value" }, element("div", {}, thumb(tensor.picture, ...tensor.thumb, theme, "gw-sheet-thumb"), ...histogram(tensor)), rows(...statistics(tensor))))];
  }
}

type Row = [label: string, value: string | HTMLElement, title?: string];

/** Labels and values in two columns; rows without a value are left out. */
function rows(...all: Row[]): HTMLElement {
  const shown = all.filter(([, value]) => value !== "");
  const cells = shown.flatMap(([label, value, title]) => [element("span", { class: "gw-sheet-label", title }, label), element("span", { class: "gw-sheet-cell" }, value)]);
  return element("div", { class: cells.length ? "gw-sheet-rows" : "" }, ...cells);
}

/** A heading and what stands below it; nothing where that is nothing. */
function section(title: string, ...children: (HTMLElement | string)[]): HTMLElement {
  const filled = children.filter((child) => typeof child === "string" ? child : child.childNodes.length || child.tagName === "CANVAS");
  return element("section", { class: "gw-sheet-part", "aria-label": title }, ...(filled.length ? [element("h4", {}, title), ...filled] : []));
}

function more(count: number, shown = LINKS): string {
  return count > shown ? `${grouped(count - shown)} more` : "";
}

const AS = { stored: "stored now", stepper: "in the stepper's run", file: "in the file" };

/** How often which values occur, from the least to the greatest. */
function histogram({ bars = [], low, high }: TensorValues): HTMLElement[] {
  if (bars.length < 2) return [];
  const most = Math.max(...bars);
  const corners = bars.flatMap((count, k) => [k, k + 1].map((x) => `${(100 * x) / bars.length}% ${100 - (100 * count) / most}%`));
  const bins = element("div", { class: "gw-sheet-bars", title: `How often values occur, ${compact(low!)} to ${compact(high!)}` });
  bins.style.clipPath = `polygon(0 100%,${corners.join()},100% 100%)`;
  return [bins];
}

function statistics({ label, source, low, high, nan, inf, mean, std, zeros, every = 1 }: TensorValues): Row[] {
  const flaws = [nan ? `${grouped(nan)} NaN` : "", inf ? `${grouped(inf)} Inf` : ""].filter(Boolean).join(", ");
  return [
    ["result", label], ["range", low === null || high === null ? "" : `${compact(low)} to ${compact(high)}`], ["mean", mean === undefined ? "" : compact(mean)],
    ["std", std === undefined ? "" : compact(std)], ["zeros", zeros ? `${compact(zeros, 3)} %` : ""], ["not finite", flaws], ["as", AS[source] + (every > 1 ? `, 1 of ${grouped(every)} read` : "")],
  ];
}

/** A node's own name as a variable of Python. */
function variable(name: string): string {
  const plain = leaf(name).replace(/\W/g, "_");
  return /^\d/.test(plain) ? `y_${plain}` : plain;
}

function filled(line: string, inputs: readonly string[]): string {
  return inputs.length ? line.replace("{}", inputs.join(", ")) : line.replace(/\{\}(, )?/, "");
}
