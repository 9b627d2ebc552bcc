// Any tensor as a picture: its slice, its numbers, its statistics and histogram, over the traits `tensor_*`.
// The kernel decides what fits; pictures and exact values come as messages.

import { ask, Cleanup, commit, isSaved, type Model } from "../ui/afm";
import { button, element, everyFrame, field, ICONS, select, Surface } from "../ui/dom";
import { shapeText } from "../ui/format";
import { addStyle } from "../ui/style";
import { readTheme, watchTheme, type Theme } from "../ui/theme";
import { copyText } from "./clipboard";
import { Scale, type Palette } from "./colors";
import { Heatmap } from "./heatmap";
import { drawHistogram } from "./histogram";
import { numberTable } from "./numbers";
import { digits, fullIndex, Part, placeOf, type PartFacts, type Place, type TensorFacts } from "./picture";
import css from "./tensor.css";

addStyle(css);

const TRANSPOSE = "M3 8.5V3h5.5M13 7.5V13H7.5M4 12l8-8";
const PLANES = "M2.5 2.5H7V7H2.5zM9 2.5h4.5V7H9zM2.5 9H7v4.5H2.5zM9 9h4.5v4.5H9z";
const NUMBERS = "M6.5 2.5l-1.5 11M11 2.5L9.5 13.5M2.5 6h11M2.5 10h11";
const LOOK = "M8 2.5a5.5 5.5 0 1 0 0 11a5.5 5.5 0 1 0 0-11M8 2.5v11M8 5.5h4.5M8 8h5.4M8 10.5h4.5";
const CLICK = 4;
const SOON = 120; // ms without a change before the kernel is asked for a finer picture or an exact value

let views = 0;

export function mountTensorPanel(host: HTMLElement, model: Model): () => void {
  const panel = new TensorPanel(host, model);
  return () => panel.dispose();
}

class TensorPanel {
  private readonly id = `${Date.now().toString(36)}.${++views}`;
  private readonly cleanup = new Cleanup();
  private readonly saved: boolean;
  private readonly heatmap = new Heatmap();
  private readonly frame = everyFrame(() => this.draw());
  private facts: TensorFacts | undefined;
  private base: Part | undefined;
  private theme: Theme | undefined;
  private scale: Scale | undefined;
  private cursor: Place | undefined;
  private hovered: Place | undefined;
  private shown = false;
  private timers: Record<string, ReturnType<typeof setTimeout>> = {};
  private answer = { at: "", where: "", text: "" };

  private readonly title = element("span", { class: "gw-title" });
  private readonly facts1 = element("span", { class: "gw-subtitle" });
  private readonly output = select("Output of the node", [], (value) => commit(this.model, "tensor", value));
  private readonly index = element("input", { class: "gw-input gw-code", "aria-label": "Slice", spellcheck: "false", autocomplete: "off", placeholder: "[0, :, ::2, -1]", title: "A slice as in numpy: integers, a:b:c, ... and None; Enter shows it" });
  private readonly problem = element("div", { class: "gw-tensor-problem", role: "alert", hidden: true });
  private readonly sliders = element("div", { class: "gw-tensor-sliders", hidden: true });
  private readonly planes = select("Axes drawn as rows × columns", [], (value) => commit(this.model, "tensor_plane", value.split(",").map(Number)));
  private readonly look = element("div", { class: "gw-tensor-look" });
  private readonly stage = element("div", { class: "gw-tensor-stage", tabindex: 0, role: "application", "aria-roledescription": "heatmap" });
  private readonly table = element("div", { class: "gw-tensor-numbers", tabindex: 0, "aria-label": "Numbers", hidden: true });
  private readonly scalar = element("div", { class: "gw-tensor-scalar", hidden: true });
  private readonly empty = element("div", { class: "gw-tensor-empty" });
  private readonly readout = element("div", { class: "gw-status gw-tensor-readout", role: "status" });
  private readonly bad = element("div", { class: "gw-tensor-bad" });
  private readonly plot = element("div", { class: "gw-tensor-plot", role: "img" });
  private readonly about = element("div", { class: "gw-subtitle" });
  private readonly list = element("dl", { class: "gw-tensor-list" });
  private readonly below = element("div", { class: "gw-tensor-below" });
  private readonly hint = element("div", { class: "gw-hint", hidden: true }, "Click the picture, or hold Ctrl, to zoom with the wheel");
  private readonly buttons: Record<"follow" | "code" | "values" | "transpose" | "tile" | "numbers" | "look" | "log" | "all", HTMLButtonElement>;
  private readonly root: HTMLElement;
  private readonly surface: Surface;
  private readonly plotSurface: Surface;
  private readonly updates: (() => void)[] = [];

  constructor(host: HTMLElement, private readonly model: Model) {
    this.saved = isSaved(model);
    const toggle = (path: string, label: string, trait: string): HTMLButtonElement => {
      const node = button(path, label, () => commit(this.model, trait, !this.model.get(trait)));
      this.updates.push(() => node.setAttribute("aria-pressed", String(Boolean(this.model.get(trait)))));
      return node;
    };
    this.buttons = {
      follow: toggle(ICONS.target, "Follow the selected node", "tensor_follows"),
      code: button(ICONS.copy, "Copy as code", () => void this.copy(this.facts?.code ?? "")),
      values: button(ICONS.edit, "Copy the values as np.array", () => void this.copy(this.facts?.literal ?? "")),
      transpose: button(TRANSPOSE, "Swap rows and columns", () => commit(this.model, "tensor_plane", [...(this.facts?.plane ?? [])].reverse())),
      tile: button(PLANES, "All planes side by side", () => this.setIndex(this.tiled ? "" : "[...]")),
      numbers: toggle(NUMBERS, "Numbers instead of colours", "tensor_numbers"),
      look: button(LOOK, "Colours and range", () => this.toggleLook()),
      log: toggle("M2.5 13.5h11M4 11V9M8 11V6M12 11V2.5", "Logarithmic counts", "tensor_log_counts"),
      all: element("button", { type: "button", class: "gw-tensor-link" }, "Read all"),
    };
    this.buttons.all.addEventListener("click", () => commit(this.model, "tensor_exact", true));
    this.buildLook();
    this.look.hidden = true;
    this.below.append(
      element("div", { class: "gw-tensor-side" }, element("div", { class: "gw-tensor-head" }, this.about, this.buttons.all, element("span", { class: "gw-space" }), this.buttons.log), this.plot, this.bad),
      this.list,
    );
    this.root = element(
      "section",
      { class: "gw-tensor", "aria-label": "Tensor" },
      element("header", { class: "gw-toolbar" }, this.title, this.facts1, element("span", { class: "gw-space" }), this.output, this.buttons.code, this.buttons.values, this.buttons.follow),
      element("div", { class: "gw-tensor-bar" }, this.index, this.planes, this.buttons.tile, this.buttons.transpose, this.buttons.numbers, this.buttons.look),
      this.problem,
      this.sliders,
      this.look,
      element("div", { class: "gw-tensor-body" }, this.stage, this.table, this.scalar, this.empty, this.hint),
      this.readout,
      this.below,
    );
    host.append(this.root);
    this.surface = new Surface(this.stage, () => this.draw());
    this.plotSurface = new Surface(this.plot, () => this.draw());
    // Where an element is on the picture, by its index in the tensor: for tests, and for whatever wants to point at one.
    Object.assign(this.stage, { locate: (index: number[]) => this.locate(index) });
    this.bind();
    this.update();
    this.model.send({ kind: "tensor.sync" });
  }

  dispose(): void {
    this.tellShown(false);
    this.cleanup.run();
    Object.values(this.timers).forEach(clearTimeout);
    this.frame.cancel();
    this.surface.dispose();
    this.plotSurface.dispose();
    this.root.remove();
  }

  private get tiled(): boolean {
    return (this.facts?.slice?.length ?? 0) > 2;
  }

  private trait<T>(name: string, otherwise: T): T {
    return (this.model.get(name) as T | undefined) ?? otherwise;
  }

  private word(name: string, otherwise: string): string {
    return this.trait<string>(name, otherwise);
  }

  // -- controls --------------------------------------------------------------------------------------

  private buildLook(): void {
    const menu = (trait: string, label: string, options: [string, string][]): HTMLLabelElement => {
      const control = select(label, options, (value) => commit(this.model, trait, value));
      this.updates.push(() => (control.value = this.trait(trait, options[0][0])));
      return field(label, control);
    };
    const limits = [0, 1].map((k) => {
      const input = element("input", { class: "gw-input", type: "number", step: "any", "aria-label": k ? "Highest value" : "Lowest value" });
      input.addEventListener("change", () => {
        const ends = [...this.trait("tensor_limits", [0, 1])];
        if (Number.isFinite(input.valueAsNumber)) ends[k] = input.valueAsNumber;
        commit(this.model, "tensor_limits", ends);
      });
      this.updates.push(() => {
        input.value = String(this.trait("tensor_limits", [0, 1])[k]);
        input.hidden = this.word("tensor_range", "full") !== "fixed";
      });
      return input;
    });
    const log = element("input", { type: "checkbox" });
    log.addEventListener("change", () => commit(this.model, "tensor_log", log.checked));
    this.updates.push(() => (log.checked = this.trait("tensor_log", false)));
    const part = menu("tensor_part", "Part", [["real", "real"], ["imag", "imaginary"], ["abs", "magnitude"], ["angle", "angle"]]);
    const cells = menu("tensor_cells", "Cell", [["largest", "largest magnitude"], ["mean", "mean"]]);
    const scope = menu("tensor_scope", "About", [["tensor", "whole tensor"], ["slice", "this slice"]]);
    this.updates.push(() => {
      part.hidden = !this.facts?.complex;
      cells.hidden = !this.base?.reduced;
      for (const node of [part, scope]) node.querySelector("select")!.disabled = this.saved;
    });
    this.look.append(
      menu("tensor_colors", "Colours", [["auto", "automatic"], ["diverging", "diverging"], ["sequential", "sequential"], ["gray", "grey"]]),
      menu("tensor_range", "Range", [["full", "min to max"], ["symmetric", "symmetric"], ["robust", "1 to 99 %"], ["fixed", "by hand"]]),
      ...limits, field("log", log), cells, part, scope,
    );
    log.parentElement!.title = "Colour by the logarithm of the magnitude, six powers of ten";
  }

  private toggleLook(): void {
    this.look.hidden = !this.look.hidden;
    this.buttons.look.setAttribute("aria-pressed", String(!this.look.hidden));
  }

  private setIndex(text: string): void {
    ask(this.model, "tensor.index", { text });
  }

  private async copy(text: string): Promise<void> {
    if (!text) return;
    const done = await copyText(this.problem, text);
    if (done) this.say("Copied", text.length > 120 ? `${text.slice(0, 120)}…` : text);
  }

  private updateControls(): void {
    const { facts, buttons } = this;
    const known = facts !== undefined && facts.note === undefined;
    this.title.textContent = facts?.name || "Tensor";
    this.title.title = facts?.name ?? "";
    const origin = facts?.origin === "stepper" ? " · in the stepper" : "";
    this.facts1.textContent = known ? `${facts.dtype} · ${shapeText(facts.shape)}${origin}` : "";
    const outputs = facts?.outputs ?? [];
    this.output.hidden = !outputs.length;
    this.output.replaceChildren(...outputs.map((name, k) => element("option", { value: name }, `output ${k}`)));
    this.output.value = facts?.name ?? "";
    this.index.disabled = !known || this.saved;
    if (known && this.root.querySelector(":focus") !== this.index) this.index.value = facts.index;
    if (!known) this.index.value = "";
    const rank = known ? facts.slice.length : 0;
    this.planes.hidden = rank < 3;
    if (known && rank >= 3) {
      const pairs = facts.slice.flatMap((_, i) => facts.slice.slice(i + 1).map((__, k) => [i, i + 1 + k]));
      this.planes.replaceChildren(...pairs.map(([a, b]) => element("option", { value: `${a},${b}` }, `axes ${a} × ${b}`)));
      this.planes.value = [...facts.plane].sort((a, b) => a - b).join();
    }
    this.planes.disabled = this.saved;
    buttons.transpose.hidden = rank < 2;
    buttons.tile.hidden = !known || facts.shape.length < 3;
    buttons.transpose.disabled = buttons.tile.disabled = this.saved;
    buttons.tile.setAttribute("aria-pressed", String(this.tiled));
    buttons.numbers.disabled = buttons.look.disabled = !known || rank === 0;
    buttons.code.disabled = !known;
    buttons.code.title = known ? `Copy as code: ${facts.code}` : "Copy as code";
    buttons.values.disabled = !known || !facts.literal;
    buttons.values.title = buttons.values.disabled ? "Copy the values as np.array: up to 200 values" : "Copy the values as np.array";
    buttons.follow.hidden = this.model.get("selected") === undefined || this.trait("tensor_follows", false) === false && facts?.origin === "array";
    buttons.all.hidden = !known || facts.every === 1;
    buttons.all.disabled = this.saved;
    this.updateSliders(known ? facts : undefined);
  }

  /** A slider for each axis that is at one index. */
  private updateSliders(facts: TensorFacts | undefined): void {
    const wanted = facts ? facts.axes.flatMap(([at, , axis], k) => (axis < 0 && facts.shape[k] > 1 ? [{ axis: k, at, size: facts.shape[k] }] : [])) : [];
    this.sliders.hidden = !wanted.length;
    const form = wanted.map(({ axis, size }) => `${axis}/${size}`).join();
    if (this.sliders.dataset.form !== form) {
      this.sliders.dataset.form = form;
      this.sliders.replaceChildren(...wanted.map(({ axis, size }) => {
        const range = element("input", { type: "range", min: 0, max: size - 1, step: 1, "aria-label": `Index of axis ${axis}`, disabled: this.saved });
        range.addEventListener("input", () => this.moveTo(axis, range.valueAsNumber));
        return element("label", { class: "gw-field" }, `axis ${axis}`, range, element("output", { class: "gw-code" }));
      }));
    }
    wanted.forEach(({ at, size }, k) => {
      const [range, text] = this.sliders.children[k].querySelectorAll("input, output") as unknown as [HTMLInputElement, HTMLOutputElement];
      if (this.root.querySelector(":focus") !== range) range.value = String(at);
      text.textContent = `${at} of ${size}`;
    });
  }

  private moveTo(axis: number, at: number): void {
    let k = -1;
    const parts = this.facts!.parts.map((part) => (part !== "None" && ++k === axis ? String(at) : part));
    clearTimeout(this.timers.slide);
    this.timers.slide = setTimeout(() => this.setIndex(`[${parts.join(", ")}]`), 40);
  }

  // -- numbers from the kernel -----------------------------------------------------------------------

  private receive(content: { kind?: string }, buffers: DataView[]): void {
    if (content.kind === "tensor") this.take(content as TensorFacts, buffers);
    else if (content.kind === "tensor.who") this.tellShown(this.shown, true);
    else if (content.kind === "tensor.fits") this.problem.hidden = true;
    else if (content.kind === "tensor.problem") this.showProblem(content as unknown as { text: string; at: number; length: number });
    else if (content.kind === "tensor.window") {
      const { view, serial, part } = content as unknown as { view: string; serial: number; part: PartFacts };
      if (view !== this.id || serial !== this.facts?.serial) return;
      this.heatmap.refine(new Part(part, this.facts.grid[1], this.facts.shown, buffers[0]));
      this.refreshNumbers();
      this.showReadout();
      this.frame.request();
    } else if (content.kind === "tensor.value") {
      const { view, at, where, text } = content as unknown as { view: string; at: number[]; where: string; text: string };
      if (view !== this.id) return;
      this.answer = { at: at.join(), where, text };
      this.showReadout();
    }
  }

  private take(facts: TensorFacts, buffers: DataView[]): void {
    const moved = facts.name !== this.facts?.name || facts.index !== this.facts?.index || facts.plane?.join() !== this.facts?.plane?.join();
    this.facts = facts;
    this.base = facts.part && buffers.length ? new Part(facts.part, facts.grid[1], facts.shown, buffers[0]) : undefined;
    this.answer.at = "";
    if (moved) {
      this.problem.hidden = true;
      this.hovered = undefined;
    }
    this.heatmap.show(this.base ? facts : undefined, this.base);
    this.update();
    this.onCursor();
    if (this.heatmap.zoomed) this.askFiner(0);
  }

  private showProblem({ text, at, length }: { text: string; at: number; length: number }): void {
    this.problem.textContent = text;
    this.problem.hidden = false;
    this.index.setAttribute("aria-invalid", "true");
    if (this.root.querySelector(":focus") === this.index) this.index.setSelectionRange(at, at + length);
  }

  private update(): void {
    const { facts, base } = this;
    const known = facts !== undefined && facts.note === undefined;
    const rank = known ? facts.slice.length : 0;
    this.scale = this.makeScale();
    for (const update of this.updates) update();
    this.updateControls();
    const numbers = this.trait("tensor_numbers", false) && base !== undefined && rank > 0;
    this.stage.hidden = !base || rank === 0 || numbers;
    this.table.hidden = !numbers;
    this.scalar.hidden = !base || rank > 0;
    this.empty.hidden = base !== undefined;
    this.below.hidden = !known;
    this.readout.hidden = !base;
    if (!facts) this.empty.textContent = "Waiting for the kernel …";
    else if (facts.note !== undefined) this.empty.textContent = facts.note;
    else if (!base) this.empty.textContent = `This slice is empty: its shape is ${shapeText(facts.slice)}.`;
    if (base && rank === 0) this.scalar.textContent = this.valueText(base, 0);
    if (known) this.updateBelow(facts);
    this.refreshNumbers();
    this.stage.setAttribute("aria-label", known ? `${facts.name} ${facts.index}, ${facts.rows.map(([label, text]) => `${label} ${text}`).join(", ")}. Arrow keys move the cursor, plus and minus zoom, 0 shows all.` : "Tensor");
    this.showReadout();
    this.frame.request();
  }

  private updateBelow(facts: TensorFacts): void {
    this.about.textContent = facts.about;
    this.list.replaceChildren(...facts.rows.slice(1).flatMap(([label, text]) => [element("dt", {}, label), element("dd", { title: text }, text)]));
    this.bad.replaceChildren(...facts.bad.map(({ kind, count, at }) => {
      const chip = element("button", { type: "button", class: "gw-tensor-chip", "data-kind": kind, title: `Go to the first ${kind}` }, element("strong", {}, `${count.toLocaleString("en")} ${kind}`), ` first at [${at.join(", ") || "()"}]`);
      chip.addEventListener("click", () => (this.saved ? commit(this.model, "tensor_cursor", at) : ask(this.model, "tensor.jump", { at })));
      return chip;
    }));
    this.plot.hidden = !facts.counts.length;
    this.plot.setAttribute("aria-label", `Histogram of ${facts.about}`);
  }

  private makeScale(): Scale | undefined {
    const { facts } = this;
    if (!facts || facts.note !== undefined || facts.low === null || facts.high === null) return undefined;
    const range = this.word("tensor_range", "full");
    let [low, high] = range === "robust" ? [facts.robust[0] ?? facts.low, facts.robust[1] ?? facts.high] : [facts.low, facts.high];
    if (range === "fixed") [low, high] = [...this.trait("tensor_limits", [0, 1])].sort((a, b) => a - b);
    if (range === "symmetric") [low, high] = [-Math.max(Math.abs(low), Math.abs(high)), Math.max(Math.abs(low), Math.abs(high))];
    const chosen = this.word("tensor_colors", "auto");
    const palette = chosen === "auto" ? (low < 0 && high > 0 ? "diverging" : "sequential") : chosen;
    return new Scale(low, high, palette as Palette, this.root.dataset.gwTheme === "dark", this.trait("tensor_log", false));
  }

  // -- value under the cursor ------------------------------------------------------------------------

  private valueText(part: Part, cell: number): string {
    const value = part.value(cell, this.word("tensor_cells", "largest") === "mean");
    if (this.facts!.dtype === "bool" && !part.reduced) return value ? "True" : "False";
    return digits(value, part.facts.type);
  }

  private showReadout(): void {
    const { facts } = this;
    if (!facts || facts.note !== undefined || !this.base) return;
    const place = this.facts!.slice.length === 0 ? { tile: 0, row: 0, column: 0 } : (this.hovered ?? this.cursor);
    if (!place) {
      const { every } = this.base.facts;
      const [rows, columns] = this.base.facts.cells;
      const span = this.base.span({ tile: 0, row: 0, column: 0 });
      const cut = facts.shown < facts.tiles ? `first ${facts.shown.toLocaleString("en")} of ${facts.tiles.toLocaleString("en")} planes · ` : "";
      const each = `${rows} × ${columns} cells of about ${span[1] - span[0]} × ${span[3] - span[2]} values${every > 1 ? `, 1 of ${every} read` : ""}; zoom for more`;
      this.say("", cut + (this.base.reduced ? each : "Point at a cell, or move with the arrow keys, to see its value"));
      return;
    }
    const found = this.heatmap.find(place) ?? { part: this.base, cell: 0 };
    const span = found.part.span(place);
    const at = [place.tile, ...span].join();
    const index = fullIndex(facts, place);
    if (this.answer.at === at) {
      if (facts.slice.length === 0) this.scalar.textContent = this.answer.text;
      this.say(this.answer.where, this.answer.text);
      return;
    }
    const single = span[1] - span[0] === 1 && span[3] - span[2] === 1;
    const last = fullIndex(facts, { tile: place.tile, row: span[1] - 1, column: span[3] - 1 });
    const first = fullIndex(facts, { tile: place.tile, row: span[0], column: span[2] });
    const where = `[${(single ? index : first).map((k, axis) => (single || k === last[axis] ? String(k) : `${k}…${last[axis]}`)).join(", ") || "()"}]`;
    this.say(where, this.valueText(found.part, found.cell));
    if ((!single || facts.asks || found.part.reduced) && !this.saved) {
      clearTimeout(this.timers.value);
      this.timers.value = setTimeout(() => this.model.send({ kind: "tensor.value", view: this.id, at: [place.tile, ...span] }), SOON / 2);
    }
  }

  private say(where: string, text: string): void {
    const parts: HTMLElement[] = where ? [element("span", { class: "gw-code gw-detail" }, where)] : [];
    this.readout.replaceChildren(...parts, element(where ? "strong" : "span", { class: where ? "gw-code" : "gw-detail", title: text }, text));
  }

  private onCursor(): void {
    const index = this.trait<number[]>("tensor_cursor", []);
    this.cursor = this.facts && this.facts.note === undefined && index.length ? placeOf(this.facts, index) : undefined;
    if (this.cursor && this.base) {
      this.heatmap.reveal(this.cursor);
      this.askFiner(SOON);
    }
    this.showReadout();
    this.refreshNumbers();
    this.frame.request();
  }

  private setCursor(place: Place | undefined): void {
    this.hovered = undefined;
    commit(this.model, "tensor_cursor", place ? fullIndex(this.facts!, place) : []);
    this.onCursor();
  }

  private refreshNumbers(): void {
    if (this.table.hidden || !this.facts || !this.base) return;
    const part = this.heatmap.detail ?? this.base;
    numberTable(this.table, this.facts, part, this.scale, this.cursor, (place) => this.setCursor(place));
  }

  // -- drawing, zoom and keys ------------------------------------------------------------------------

  private draw(): void {
    if (!this.theme) {
      this.theme = readTheme(this.root);
      this.scale = this.makeScale();
      this.refreshNumbers();
    }
    const { theme, facts } = this;
    if (!theme || !facts || facts.note !== undefined) return;
    const mean = this.word("tensor_cells", "largest") === "mean";
    if (this.base && !this.stage.hidden && this.surface.begin()) {
      this.heatmap.draw(this.surface.context, theme, this.scale, mean, this.cursor, this.surface);
      this.root.dataset.drawn = String(facts.serial);
    }
    drawHistogram(this.plotSurface, theme, facts, this.scale, this.trait("tensor_log_counts", false));
  }

  private askFiner(delay: number): void {
    clearTimeout(this.timers.finer);
    if (this.saved || !this.heatmap.wanted()) return;
    this.timers.finer = setTimeout(() => {
      const window = this.heatmap.wanted();
      if (window) this.model.send({ kind: "tensor.window", view: this.id, serial: this.facts!.serial, window });
    }, delay);
  }

  private locate(index: number[]): { x: number; y: number } | null {
    const place = this.facts && placeOf(this.facts, index);
    if (!place) return null;
    const [x, y] = this.heatmap.center(place);
    const { left, top } = this.stage.getBoundingClientRect();
    return { x: left + x, y: top + y };
  }

  private bind(): void {
    const { cleanup, model, stage, index } = this;
    cleanup.model(model, "msg:custom", (content: { kind?: string }, buffers: DataView[]) => this.receive(content, buffers));
    for (const trait of ["colors", "range", "limits", "log", "log_counts", "cells", "numbers", "follows", "part", "scope", "exact"]) {
      cleanup.model(model, `change:tensor_${trait}`, () => this.update());
    }
    cleanup.model(model, "change:tensor_cursor", () => this.onCursor());
    cleanup.add(watchTheme(() => {
      this.theme = undefined;
      this.frame.request();
    }));
    const observer = new IntersectionObserver((entries) => this.tellShown(entries[entries.length - 1].isIntersecting));
    observer.observe(this.root);
    cleanup.add(() => observer.disconnect());
    cleanup.dom(index, "keydown", (event) => {
      if (event.key === "Enter") this.setIndex(index.value);
      else if (event.key === "Escape") {
        index.value = this.facts?.index ?? "";
        this.problem.hidden = true;
        index.removeAttribute("aria-invalid");
      } else return;
      event.preventDefault();
      event.stopPropagation();
    });
    cleanup.dom(index, "input", () => index.removeAttribute("aria-invalid"));
    cleanup.dom(index, "change", () => this.setIndex(index.value));

    const at = (event: MouseEvent): [number, number] => {
      const { left, top } = stage.getBoundingClientRect();
      return [event.clientX - left, event.clientY - top];
    };
    let pressed: { x: number; y: number; moved: boolean } | undefined;
    cleanup.dom(stage, "pointerdown", (event) => {
      if (event.button > 1) return;
      const [x, y] = at(event);
      pressed = { x, y, moved: false };
      stage.setPointerCapture(event.pointerId);
    });
    cleanup.dom(stage, "pointermove", (event) => {
      const [x, y] = at(event);
      if (!pressed) {
        this.hovered = this.heatmap.at(x, y);
        this.showReadout();
        return;
      }
      if (!pressed.moved && Math.hypot(x - pressed.x, y - pressed.y) < CLICK) return;
      this.heatmap.pan(x - pressed.x, y - pressed.y);
      pressed = { x, y, moved: true };
      this.askFiner(SOON);
      this.frame.request();
    });
    cleanup.dom(stage, "pointerup", (event) => {
      if (pressed && !pressed.moved) this.setCursor(this.heatmap.at(...at(event)));
      pressed = undefined;
    });
    cleanup.dom(stage, "pointercancel", () => (pressed = undefined));
    cleanup.dom(stage, "pointerleave", () => {
      this.hovered = undefined;
      this.showReadout();
    });
    cleanup.dom(stage, "dblclick", () => this.zoom(0, 0, 0));
    cleanup.dom(stage, "wheel", (event) => {
      if (document.activeElement !== stage && (stage.getRootNode() as ShadowRoot).activeElement !== stage && !event.ctrlKey && !event.metaKey) {
        this.hint.hidden = false;
        clearTimeout(this.timers.hint);
        this.timers.hint = setTimeout(() => (this.hint.hidden = true), 1500);
        return;
      }
      event.preventDefault();
      const pixels = event.deltaMode === 1 ? event.deltaY * 16 : event.deltaY;
      this.zoom(Math.exp(-Math.max(-120, Math.min(120, pixels)) * (event.ctrlKey ? 0.01 : 0.003)), ...at(event));
    }, { passive: false });
    cleanup.dom(stage, "keydown", (event) => this.onKey(event));
  }

  /** Zooms about a point of the canvas; a factor of 0 shows everything. */
  private zoom(factor: number, x: number, y: number): void {
    if (factor) this.heatmap.zoom(factor, x, y);
    else this.heatmap.reset();
    this.askFiner(SOON);
    this.refreshNumbers();
    this.showReadout();
    this.frame.request();
  }

  private onKey(event: KeyboardEvent): void {
    if (!this.base || event.ctrlKey || event.metaKey || event.altKey) return;
    const [dx, dy] = ({ ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] } as Record<string, [number, number]>)[event.key] ?? [0, 0];
    const zoom = ({ "+": 1.5, "=": 1.5, "-": 1 / 1.5, "0": 0 } as Record<string, number>)[event.key];
    if (dx || dy) this.setCursor(this.step(dx, dy, event.shiftKey ? 10 : 1));
    else if (zoom !== undefined) {
      const center = this.cursor ? this.heatmap.center(this.cursor) : ([this.surface.width / 2, this.surface.height / 2] as [number, number]);
      this.zoom(zoom, ...center);
    } else if (event.key === "Escape" && this.cursor) this.setCursor(undefined);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** The place some cells further, across the border between planes, too. */
  private step(dx: number, dy: number, times: number): Place {
    const facts = this.facts!;
    let place = this.cursor;
    if (!place) return { tile: 0, row: 0, column: 0 };
    for (let k = 0; k < times; k++) {
      const part = this.heatmap.find(place)?.part ?? this.base!;
      const [top, bottom, left, right] = part.span(place);
      const next: Place = { tile: place.tile, row: dy > 0 ? bottom : dy < 0 ? top - 1 : place.row, column: dx > 0 ? right : dx < 0 ? left - 1 : place.column };
      const across = facts.grid[1];
      if (next.column < 0 && next.tile % across) [next.tile, next.column] = [next.tile - 1, facts.width - 1];
      if (next.column >= facts.width && (next.tile + 1) % across) [next.tile, next.column] = [next.tile + 1, 0];
      if (next.row < 0 && next.tile >= across) [next.tile, next.row] = [next.tile - across, facts.height - 1];
      if (next.row >= facts.height) [next.tile, next.row] = [next.tile + across, 0];
      if (next.row < 0 || next.column < 0 || next.column >= facts.width || next.tile >= facts.shown) break;
      place = next;
    }
    return place;
  }

  private tellShown(shown: boolean, again = false): void {
    if (this.saved || (shown === this.shown && !again)) return;
    const fresh = shown && !this.shown;
    this.shown = shown;
    if (shown || !again) this.model.send({ kind: "tensor.look", view: this.id, shown, fresh });
  }
}
