// The graph drawing with its toolbar, outline and status line, over traits of a widget model: `graph_spec`, `selected`,
// `expanded`, `frozen`, what other panels point at, and how the drawing is shown.

import { ask, Cleanup, commit, isSaved, type Model, type Named } from "../../core/afm";
import type { Traits } from "../../core/contract";
import { element, everyFrame, example, Surface } from "../../core/dom";
import type { Panel } from "../../core/panel";
import { canShowSource } from "../../core/source";
import { themeOf, type Theme } from "../../core/theme";
import { addStyle } from "../../core/style";
import css from "./graph.css";
import { keepView, recallView } from "./bookmarks";
import { Drawing, type Spot } from "./picture/drawing";
import { factsOf, type FactStore } from "./model/facts";
import { focusOf } from "./picture/focus";
import { mountInspector } from "./inspecting";
import { Layouts } from "./layout/layouts";
import { frozenOf, itemAround, marksOf } from "./picture/marks";
import { Minimap } from "./picture/minimap";
import type { GraphModel } from "./model/model";
import { anywhere, leaf } from "./model/names";
import type { OpenScopes } from "./layout/open_scopes";
import { Outline } from "./outline";
import { Overlay, waitingFor, type ColorBy, type MeasuredSpec, type OverlaySpec } from "./picture/overlay";
import type { Look } from "./picture/look";
import { pathOf } from "./picture/path";
import { Picture } from "./picture/picture";
import { save } from "./save";
import { SearchBox } from "./search_box";
import { Sight } from "./picture/sight";
import { Stage } from "./stage";
import { StatusLine, type Shown } from "./status";
import { mountToolbar } from "./toolbar";
import type { Paths } from "./model/trace";
import { Viewport } from "./picture/viewport";
import { Walk, type Way } from "./model/walk";
import type { AdapterSpec } from "./model/wire";
import { WhyCard, whyOf } from "./why";

addStyle(css);

const NONE = -1;
const NEAR = 6; // px from a line within which it is meant

export const graphPanel: Panel = { prepare: () => undefined, mount: mountGraphPanel };

function mountGraphPanel(host: HTMLElement, model: Model): () => void {
  const cleanup = new Cleanup();
  const slot = element("div", { class: "gw-slot" });
  host.append(slot);
  let panel = new GraphPanel(slot, model);
  cleanup.model(model, "change:graph_spec", () => {
    panel.dispose();
    panel = new GraphPanel(slot, model, panel.view); // what stays in the graph stays where it is
  });
  cleanup.add(() => {
    panel.dispose();
    slot.remove();
  });
  return () => cleanup.run();
}

class GraphPanel {
  private readonly cleanup = new Cleanup();
  private readonly graph: GraphModel;
  private readonly layouts: Layouts;
  private readonly outline: Outline;
  private readonly search: SearchBox;
  private readonly surface: Surface;
  private readonly picture: Picture;
  private readonly sight: Sight;
  private readonly minimap: Minimap;
  private readonly stage: Stage;
  private walker: Walk;
  private readonly scopes: OpenScopes;
  private readonly frame = everyFrame(() => this.draw());
  private readonly root = element("section", { class: "gw-graph", "aria-label": "Graph" });
  private readonly status: StatusLine;
  private readonly facts: FactStore;
  private readonly inspect: () => void;
  private readonly card: WhyCard;
  private readonly theme = themeOf(this.root, this.cleanup, () => this.onColors());
  private shaded: Theme | undefined; // what the colours of the overlay are for
  private drawing: Drawing | undefined;
  private look: Omit<Look, "theme"> = { selected: NONE, hovered: NONE, lit: new Set(), frozen: new Set() };
  private overlay: Overlay | undefined;
  private found: number[] | undefined;
  private selecting = false;
  /** A piece of the line that was clicked. */
  private line = NONE;

  constructor(host: HTMLElement, private readonly model: Model, readonly view = new Viewport()) {
    this.look.still = isSaved(model);
    this.facts = factsOf(model);
    this.layouts = new Layouts(model);
    const graph = (this.graph = this.layouts.graph);
    this.walker = new Walk(graph);
    this.scopes = this.layouts.scopes;
    const explain = model.get("why") === undefined || isSaved(model) ? undefined : (node: number) => ask(model, "why.ask", { name: graph.spec.names[node] });
    this.status = new StatusLine(graph, (item) => this.visit(item), () => canShowSource(model), explain);
    this.card = new WhyCard(model, (name) => commit(model, "selected", name));
    this.outline = new Outline(graph, {
      select: (item) => this.select(item),
      point: (item) => this.point(item, true),
      setOpen: (item, open) => this.setOpen(item, open),
    });
    this.search = new SearchBox(graph, {
      found: (items) => this.onFound(items),
      point: (item) => this.point(this.drawing?.standIn(item) ?? NONE, true),
      visit: (item) => this.visit(item),
      leave: () => this.stage.root.focus(),
    });
    this.stage = new Stage(this.view, {
      moved: this.frame.request,
      hover: (x, y) => this.hover(x, y),
      leave: () => this.point(NONE),
      click: (x, y, shift) => this.click(x, y, shift),
      double: (x, y) => this.double(x, y),
      fit: () => this.sight.fit(),
      toggle: () => this.toggle(this.look.selected),
      escape: () => (model.get("inspector") && !this.text("path_to") ? commit(model, "inspector", false) : this.select(NONE)),
      inspect: () => commit(model, "inspector", !model.get("inspector")),
      walk: (way) => this.walk(way),
    });
    this.stage.root.setAttribute("aria-label", `Drawing of ${graph.spec.name}; the outline lists the same nodes for the keyboard`);
    const sheet = mountInspector(graph, model, this.cleanup, { visit: (item) => this.visit(item), shown: () => [this.look.selected, this.overlay, this.theme()], focus: () => this.stage.root.focus() });
    this.inspect = sheet.update;
    const body = element("div", { class: "gw-graph-body" }, this.outline.root, this.stage.root, sheet.root);
    const bar = mountToolbar(graph, model, this.cleanup, {
      find: () => (this.search.isOpen ? this.search.close() : this.search.open()),
      outline: () => {
        const shown = body.classList.toggle("gw-with-outline");
        if (shown) this.outline.root.focus();
        return shown;
      },
      open: (scopes) => this.scopes.commit(scopes),
      selected: () => this.deeds(),
      zoom: (factor) => {
        this.view.zoom(factor, this.surface.width / 2, this.surface.height / 2);
        this.frame.request();
      },
      fit: () => this.sight.fit(),
      keep: () => keepView(model, this.view),
      recall: (view) => {
        recallView(model, view);
        this.sight.recall(view.place ?? [], Boolean(this.root.dataset.busy));
      },
      save: (format) => {
        const theme = this.theme();
        if (this.drawing && theme) void save(format, graph, this.drawing.painter, { ...this.look, theme });
      },
    });
    this.root.append(bar, body, this.card.root, this.status.root);
    host.append(this.root);
    this.surface = new Surface(this.stage.root, () => this.onResize());
    this.picture = new Picture(this.surface, this.frame.request);
    this.sight = new Sight(graph, this.view, this.surface, this.frame.request);
    this.minimap = new Minimap(this.view, () => [this.surface.width, this.surface.height], this.frame.request);
    this.stage.root.append(this.minimap.root, this.search.root);
    if (!graph.n) this.stage.root.append(element("div", { class: "gw-empty" }, ...(isSaved(model) ? ["This graph has no nodes."] : ["This graph has no nodes yet. Declare some, and they are drawn when the cell has run:", example('x = g.placeholder("x", (None, 64))')])));
    this.bind();
    this.onColors();
    this.card.update();
    void this.layOut();
  }

  private bind(): void {
    const on = (traits: (keyof Traits)[], act: () => void): void => traits.forEach((trait) => this.cleanup.model(this.model, `change:${trait}`, act));
    this.stage.bind(this.cleanup, this.surface);
    this.cleanup.dom(this.root, "keydown", (event) => this.search.onShortcut(event));
    on(["selected", "paths", "path_to"], () => this.onSelected());
    on(["expanded", "insides"], () => void this.layOut());
    on(["color_by", "overlay", "measured"], () => this.onColors());
    this.cleanup.add(this.facts.listen(() => this.onColors()));
    on(["frozen", "stops", "blamed"], () => this.onMarks());
    on(["minimap"], this.frame.request);
    on(["why"], () => this.onWhy());
    on(["current", "follow"], () => this.onCurrent());
    // Where a node stands on the screen, by name: for tests, and for whatever wants to point at one.
    const locate = (name: string) => this.stage.onPage(this.drawing?.rect(this.graph.itemOf(name)));
    Object.assign(this.stage.root, { locate });
  }

  dispose(): void {
    this.cleanup.run();
    this.frame.cancel();
    this.minimap.dispose();
    this.picture.dispose();
    this.surface.dispose();
    this.layouts.dispose();
    this.root.remove();
  }

  // State from the kernel.

  private async layOut(): Promise<void> {
    this.root.dataset.busy = "true";
    let [hovered, selected] = ["", ""];
    let before: ReturnType<Drawing["rect"]>;
    const made = await this.layouts.next(this.sight.aspect, () => {
      [hovered, selected] = [this.nameOf(this.look.hovered), this.nameOf(this.look.selected)];
      before = this.drawing?.rect(hovered ? this.look.hovered : this.look.selected);
    });
    if (!made) return;
    this.drawing = new Drawing(this.graph, made.scene);
    this.look = { ...this.look, hovered: this.graph.itemOf(hovered), selected: this.graph.itemOf(selected) };
    this.walker = new Walk(this.graph);
    this.line = NONE;
    if (this.search.isOpen) this.search.look();
    this.onMarks();
    this.onSelected();
    this.onColors();
    this.sight.enter(this.drawing, before, this.drawing.rect(this.graph.itemOf(hovered || selected)), this.atFirst(), hovered !== "");
    delete this.root.dataset.busy;
    this.root.dataset.ready = String(made.ticket);
    this.root.dataset.boxes = String(made.scene.items.length);
  }

  private onSelected(): void {
    const name = this.text("selected");
    const item = this.graph.itemOf(name);
    if (item === NONE && name.includes(":")) this.scopes.to(anywhere(name));
    const elsewhere = item !== this.look.selected && !this.selecting;
    this.look = { ...this.look, selected: item };
    if (item !== NONE) this.line = NONE;
    if (elsewhere) this.sight.show(name);
    this.refocus();
    this.outline.update(this.scopes.all, item);
  }

  private refocus(): void {
    const { drawing, found, line, look } = this;
    if (drawing) {
      const other = this.graph.itemOf(this.text("path_to"));
      const paths = (this.model.get("paths") ?? "none") as Paths;
      const path = pathOf(this.graph, drawing, whyOf(this.model), this.overlay);
      const { focus, lit } = focusOf(this.graph, drawing, { found, line, selected: look.selected, other, path: path?.focus, paths });
      this.look = { ...look, focus, lit, path: focus && focus === path?.focus ? path : undefined };
    }
    this.minimap.invalidate();
    this.picture.invalidate();
    this.writeStatus();
    this.frame.request();
  }

  private onColors(): void {
    this.shaded = this.theme();
    const by = (this.model.get("color_by") ?? "category") as ColorBy;
    const measured = this.model.get("measured") as MeasuredSpec | undefined;
    if (by === "flops" || by === "bytes") this.facts.want();
    this.overlay = Overlay.of(this.graph, by, this.model.get("overlay") as OverlaySpec | undefined, measured, this.facts.facts);
    const dark = this.shaded?.dark ?? false;
    this.look = { ...this.look, shades: this.shaded && this.overlay?.shades(dark) };
    this.status.showScale(this.overlay, dark, waitingFor(by, measured));
    this.refocus();
  }

  private onMarks(): void {
    const { drawing } = this;
    if (!drawing) return;
    const names = { current: this.text("current"), stops: this.names("stops"), blamed: this.names("blamed") };
    const marks = marksOf(this.graph, drawing.wires, drawing.isDrawn, names);
    this.look = { ...this.look, marks, frozen: frozenOf(this.graph, this.names("frozen")) };
    this.outline.mark(marks);
    this.writeStatus();
    this.frame.request();
  }

  private onWhy(): void {
    this.card.update();
    this.refocus();
  }

  /** The node that runs next comes into sight, and out of its scopes where that is asked for. */
  private onCurrent(): void {
    this.onMarks();
    const current = this.text("current");
    const follow = Boolean(this.model.get("follow"));
    if (follow && current.includes(":") && this.graph.itemOf(current) === NONE) this.scopes.to(anywhere(current));
    const item = itemAround(this.graph, current);
    if (item !== NONE) this.head(item, false, follow);
  }

  private onFound(items: number[] | undefined): void {
    this.found = items;
    this.point(NONE);
    this.refocus();
  }

  // Actions of the user.

  private select(item: number): void {
    this.line = NONE;
    if (this.text("path_to")) commit(this.model, "path_to", "");
    this.selecting = true; // what was clicked is in sight
    commit(this.model, "selected", this.nameOf(item));
    this.selecting = false;
    this.refocus();
  }

  /** Selects an item, opens the scopes around it and brings it to the middle. */
  private visit(item: number): void {
    this.select(item);
    this.head(item, true, true);
  }

  private head(item: number, middle: boolean, open: boolean): void {
    const opening = open && this.scopes.around(item);
    this.sight.head(this.nameOf(item), middle, opening || Boolean(this.root.dataset.busy));
  }

  /** What a drawing that nobody has moved begins with in sight. */
  private atFirst(): string {
    const current = this.look.marks?.current ?? NONE;
    return this.nameOf(current === NONE ? this.look.selected : current);
  }

  private walk(way: Way): void {
    const item = this.walker.from(this.look.selected, way);
    if (item !== NONE && item !== this.look.selected) this.visit(item);
  }

  private point(item: number, reveal = false): void {
    if (item === this.look.hovered) return;
    this.look = { ...this.look, hovered: item };
    if (reveal) this.sight.reveal(item);
    this.frame.request();
  }

  private setOpen(item: number, open: boolean): void {
    if (this.look.still && item < this.graph.n) return;
    this.look = { ...this.look, hovered: item }; // what stays in its place
    this.scopes.set(item, open);
  }

  /** What can be done with the selected item. */
  private deeds(): { label: string; run(): void }[] {
    const { selected, still } = this.look;
    if (selected === NONE || !this.graph.opens(selected) || (still && selected < this.graph.n)) return [];
    const opens = { label: `${this.scopes.has(selected) ? "Close" : "Open"} ${leaf(this.nameOf(selected).replace(/\/$/, ""))}`, run: () => this.toggle(selected) };
    const adapter = this.graph.adapter(selected);
    return adapter && !still ? [opens, { label: `Switch ${adapter.on ? "off" : "on"} ${adapter.name}`, run: () => this.flip(adapter) }] : [opens];
  }

  private flip({ name, on }: AdapterSpec): void {
    ask(this.model, "graph.adapter", { name, on: !on });
  }

  private toggle(item: number): void {
    if (item !== NONE && this.graph.opens(item)) this.setOpen(item, !this.scopes.has(item));
  }

  private click(x: number, y: number, shift: boolean): void {
    const { item, toggle, line, adapter } = this.at(x, y);
    if (adapter && !this.look.still) this.flip(adapter);
    else if (toggle) this.toggle(item);
    else if (line !== NONE) {
      this.select(NONE);
      this.line = line;
      this.refocus();
    } else if (shift && item !== NONE && this.look.selected !== NONE && item !== this.look.selected) commit(this.model, "path_to", this.graph.itemName(item));
    else this.select(item);
  }

  private double(x: number, y: number): void {
    const { item, line, adapter } = this.at(x, y);
    if (line === NONE && !adapter) this.toggle(item);
  }

  private hover(x: number, y: number): void {
    const { item, line } = this.at(x, y);
    const { drawing } = this;
    if (!drawing) return;
    this.stage.root.style.cursor = item !== NONE || line !== NONE ? "pointer" : "";
    this.point(item);
    const frame = this.scopes.has(item);
    if (line !== NONE) this.stage.describe(-2 - line, () => this.status.lineText(line, drawing), () => drawing.around(NONE, [x, y], this.view));
    else this.stage.describe(item === NONE || frame ? undefined : item, () => this.status.itemText(item, this.shown(drawing)), () => drawing.around(item, [x, y], this.view));
  }

  private at(x: number, y: number): Spot {
    return this.drawing?.at(...this.view.toPlane(x, y), NEAR / this.view.scale) ?? { item: NONE, toggle: false, line: NONE };
  }

  // Drawing.

  private onResize(): void {
    this.sight.settle(this.atFirst());
    this.minimap.invalidate();
    this.draw(); // a canvas is cleared by its resizing
  }

  private draw(): void {
    const theme = this.theme();
    if (theme !== this.shaded) this.onColors();
    const { drawing } = this;
    if (!drawing || !theme) return;
    const look = { ...this.look, theme };
    const shown = this.view.window(this.surface.width, this.surface.height);
    this.picture.paint(drawing.painter, shown, look);
    this.minimap.draw(drawing.painter, look, shown, this.model.get("minimap") !== false);
  }

  // Words.

  private writeStatus(): void {
    if (this.drawing) this.status.show(this.shown(this.drawing));
    this.inspect();
  }

  private shown(drawing: Drawing): Shown {
    return { drawing, look: this.look, overlay: this.overlay, line: this.line, other: this.graph.itemOf(this.text("path_to")) };
  }

  private nameOf(item: number): string {
    return item === NONE ? "" : this.graph.itemName(item);
  }

  private text(trait: Named<string>): string {
    return String(this.model.get(trait) ?? "");
  }

  private names(trait: Named<string[]>): string[] {
    return (this.model.get(trait) as string[] | undefined) ?? [];
  }
}
