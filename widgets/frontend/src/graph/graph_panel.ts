// The graph drawing with its toolbar, outline and status line, over the traits `graph_spec`, `selected`, `expanded`
// and `frozen` of a widget model.

import { Cleanup, commit, type Model } from "../ui/afm";
import { button, element, everyFrame, ICONS, Surface } from "../ui/dom";
import { readTheme, watchTheme, type Theme } from "../ui/theme";
import { addStyle } from "../ui/style";
import css from "./graph.css";
import { LayoutClient } from "./client";
import { countOf, describe, type Face } from "./describe";
import { GraphModel, type GraphSpec } from "./model";
import { Outline } from "./outline";
import { Painter, TOGGLE, type Look } from "./paint";
import { CanvasPen, SvgPen } from "./pen";
import { hit, linesOf, placesOf } from "./scene";
import { HEADER } from "./engine";
import { Viewport } from "./viewport";

addStyle(css);

const NONE = -1;
/** A pointer that moves less than this between press and release has clicked. */
const CLICK = 4;
const TIP_DELAY = 350; // ms over an item before its facts appear
const LEGEND: [string, string][] = [
  ["input", "input"], ["parameter", "parameter"], ["linear", "linear"], ["activation", "activation"], ["norm", "normalisation"],
  ["math", "arithmetic"], ["reduce", "reduction"], ["shape", "shape"], ["loss", "loss"], ["random", "random"], ["control", "control flow"], ["constant", "constant"],
];

export function mountGraphPanel(host: HTMLElement, model: Model): () => void {
  const cleanup = new Cleanup();
  const slot = element("div", { class: "gw-slot" });
  host.append(slot);
  let panel = new GraphPanel(slot, model);
  cleanup.model(model, "change:graph_spec", () => {
    panel.dispose();
    panel = new GraphPanel(slot, model);
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
  private readonly client: LayoutClient;
  private readonly outline: Outline;
  private readonly surface: Surface;
  private readonly view = new Viewport();
  private readonly frame = everyFrame(() => this.draw());
  private readonly root = element("section", { class: "gw-graph", "aria-label": "Graph" });
  private readonly stage = element("div", { class: "gw-stage", tabindex: 0, role: "img" });
  private readonly status = element("div", { class: "gw-status", role: "status" });
  private readonly tip = element("div", { class: "gw-tip", hidden: true });
  private readonly hint = element("div", { class: "gw-hint", hidden: true }, "Click the drawing, or hold Ctrl, to zoom with the wheel");
  private theme: Theme | undefined;
  private painter: Painter | undefined;
  private places = new Map<number, number>();
  private open = new Set<number>();
  private look: Omit<Look, "theme"> = { selected: NONE, hovered: NONE, lit: new Set(), frozen: new Set() };
  private layouts = 0;
  private tipItem = NONE;
  private tipTimer: ReturnType<typeof setTimeout> | 0 = 0;

  constructor(host: HTMLElement, private readonly model: Model) {
    this.graph = new GraphModel(model.get("graph_spec") as GraphSpec);
    this.client = new LayoutClient(this.graph);
    this.outline = new Outline(this.graph, {
      select: (item) => this.select(item),
      point: (item) => this.point(item, true),
      setOpen: (scope, open) => this.setOpen(scope, open),
    });
    this.stage.setAttribute("aria-label", `Drawing of ${this.graph.spec.name}; the outline lists the same nodes for the keyboard`);
    const body = element("div", { class: "gw-graph-body" }, this.outline.root, this.stage);
    this.root.append(this.toolbar(body), body, this.status);
    host.append(this.root);
    this.surface = new Surface(this.stage, () => this.onResize());
    this.stage.append(this.tip, this.hint);
    if (!this.graph.n) this.stage.append(element("div", { class: "gw-empty" }, "This graph has no nodes yet."));
    this.cleanup.add(watchTheme(() => {
      this.theme = undefined;
      this.frame.request();
    }));
    this.cleanup.model(model, "change:selected", () => this.onSelected());
    this.cleanup.model(model, "change:expanded", () => void this.onExpanded());
    this.cleanup.model(model, "change:frozen", () => this.onFrozen());
    // Where a node stands on the screen, by name: for tests, and for whatever wants to point at one.
    Object.assign(this.stage, { locate: (name: string) => this.locate(name) });
    this.bindPointer();
    this.onFrozen();
    void this.onExpanded();
  }

  dispose(): void {
    this.cleanup.run();
    this.hideTip();
    this.frame.cancel();
    this.surface.dispose();
    this.client.dispose();
    this.root.remove();
  }

  private toolbar(body: HTMLElement): HTMLElement {
    const scopes = this.graph.scopes.length > 1;
    const zoom = (factor: number) => () => {
      this.view.zoom(factor, this.surface.width / 2, this.surface.height / 2);
      this.frame.request();
    };
    const outline = button(ICONS.outline, "Outline", () => {
      const shown = body.classList.toggle("gw-with-outline");
      outline.setAttribute("aria-pressed", String(shown));
      if (shown) this.outline.root.focus();
    });
    outline.setAttribute("aria-pressed", "false");
    const size = countOf(this.graph.n, "node");
    const groups: HTMLElement[][] = [
      [outline],
      scopes
        ? [
            button(ICONS.open, "Open all scopes", () => this.commitOpen(this.graph.scopes.map((_, s) => s).slice(1))),
            button(ICONS.close, "Close all scopes", () => this.commitOpen([])),
          ]
        : [],
      [button(ICONS.minus, "Zoom out", zoom(1 / 1.3)), button(ICONS.plus, "Zoom in", zoom(1.3)), button(ICONS.fit, "Fit the drawing", () => this.fit(false))],
      [button(ICONS.save, "Save as SVG", () => this.saveSvg())],
    ];
    return element(
      "header",
      { class: "gw-toolbar" },
      element("span", { class: "gw-title", title: this.graph.spec.name }, this.graph.spec.name),
      element("span", { class: "gw-subtitle" }, size),
      element("span", { class: "gw-space" }),
      ...groups.filter((group) => group.length).map((group) => element("span", { class: "gw-group", role: "group" }, ...group)),
    );
  }

  // State from the kernel.

  private async onExpanded(): Promise<void> {
    const wanted = this.model.get("expanded") as string[] | null;
    const scopes = wanted ? wanted.map((path) => this.graph.scope(path)).filter((s) => s > 0) : this.graph.openAtFirst();
    this.open = new Set(scopes);
    const ticket = ++this.layouts;
    this.root.dataset.busy = "true";
    const scene = await this.client.layout(scopes);
    if (ticket !== this.layouts) return; // a later request has overtaken this one
    const anchor = this.anchorOf(this.look.hovered !== NONE ? this.look.hovered : this.look.selected);
    this.painter = new Painter(this.graph, scene);
    this.places = placesOf(scene);
    if (this.view.untouched) this.fit(true);
    else if (anchor) {
      const place = this.rect(anchor.item);
      if (place) {
        this.view.x += place[0] - anchor.x;
        this.view.y += place[1] - anchor.y;
      }
    }
    this.onSelected();
    delete this.root.dataset.busy;
    this.root.dataset.ready = String(ticket);
    this.root.dataset.boxes = String(scene.items.length);
  }

  private onSelected(): void {
    const item = this.graph.itemOf(String(this.model.get("selected") ?? ""));
    this.look = { ...this.look, selected: item, lit: this.painter && item !== NONE ? linesOf(this.painter.scene, item) : new Set() };
    this.outline.update(this.open, item);
    this.writeStatus(item);
    this.frame.request();
  }

  private onFrozen(): void {
    const names = (this.model.get("frozen") as string[] | undefined) ?? [];
    this.look = { ...this.look, frozen: new Set(names.map((name) => this.graph.node(name))) };
    this.frame.request();
  }

  // Actions of the user.

  private select(item: number): void {
    commit(this.model, "selected", item === NONE ? "" : this.graph.itemName(item));
  }

  private point(item: number, reveal = false): void {
    if (item === this.look.hovered) return;
    this.look = { ...this.look, hovered: item };
    const place = this.rect(item);
    if (reveal && place) this.view.reveal(...place, this.surface.width, this.surface.height);
    this.frame.request();
  }

  private setOpen(scope: number, open: boolean): void {
    const next = new Set(this.open);
    if (open) next.add(scope);
    else next.delete(scope);
    this.look = { ...this.look, hovered: this.graph.n + scope };
    this.commitOpen([...next]);
  }

  private commitOpen(scopes: number[]): void {
    commit(this.model, "expanded", scopes.map((s) => this.graph.scopes[s].path).sort());
  }

  private fit(readable: boolean): void {
    if (!this.painter) return;
    this.view.fit(this.painter.scene, this.surface.width, this.surface.height, readable);
    this.frame.request();
  }

  private saveSvg(): void {
    if (!this.painter || !this.theme) return;
    const { width, height } = this.painter.scene;
    const pen = new SvgPen(this.theme.font);
    this.painter.paint(pen, { x: -16, y: -16, width: width + 32, height: height + 32, scale: 1 }, { ...this.look, hovered: NONE, theme: this.theme });
    const text = pen.finish(-16, -16, width + 32, height + 32, this.theme.surface, this.graph.spec.name);
    const url = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
    element("a", { href: url, download: `${this.graph.spec.name.replace(/[^\w.-]+/g, "_") || "graph"}.svg` }).click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  }

  // Pointer and keys on the drawing.

  private bindPointer(): void {
    let pressed: { x: number; y: number; moved: boolean } | undefined;
    const at = (event: MouseEvent): [number, number] => {
      const box = this.stage.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    this.cleanup.dom(this.stage, "pointerdown", (event) => {
      if (event.button > 1) return;
      const [x, y] = at(event);
      pressed = { x, y, moved: false };
      this.stage.setPointerCapture(event.pointerId);
    });
    this.cleanup.dom(this.stage, "pointermove", (event) => {
      const [x, y] = at(event);
      if (!pressed) {
        this.hover(x, y);
        return;
      }
      if (!pressed.moved && Math.hypot(x - pressed.x, y - pressed.y) < CLICK) return;
      this.view.pan(x - pressed.x, y - pressed.y);
      pressed = { x, y, moved: true };
      this.hideTip();
      this.stage.classList.add("gw-panning");
      this.frame.request();
    });
    this.cleanup.dom(this.stage, "pointerup", (event) => {
      const clicked = pressed && !pressed.moved;
      pressed = undefined;
      this.stage.classList.remove("gw-panning");
      if (clicked) this.onClick(...at(event));
    });
    this.cleanup.dom(this.stage, "pointercancel", () => {
      pressed = undefined;
      this.stage.classList.remove("gw-panning");
    });
    this.cleanup.dom(this.stage, "pointerleave", () => {
      this.hideTip();
      this.point(NONE);
    });
    this.cleanup.dom(this.stage, "dblclick", (event) => {
      const [k] = this.at(...at(event));
      const scope = k < 0 ? NONE : this.painter!.scene.items[k] - this.graph.n;
      if (scope > 0) this.setOpen(scope, !this.open.has(scope));
    });
    this.cleanup.dom(this.stage, "wheel", (event) => this.onWheel(event, ...at(event)), { passive: false });
    this.cleanup.dom(this.stage, "keydown", (event) => this.onKey(event));
  }

  private onWheel(event: WheelEvent, x: number, y: number): void {
    const focused = this.root.contains(document.activeElement);
    if (!focused && !event.ctrlKey && !event.metaKey) {
      this.hint.hidden = false;
      setTimeout(() => (this.hint.hidden = true), 1500);
      return;
    }
    event.preventDefault();
    const pixels = event.deltaMode === 1 ? event.deltaY * 16 : event.deltaY;
    this.view.zoom(Math.exp(-Math.max(-120, Math.min(120, pixels)) * (event.ctrlKey ? 0.01 : 0.002)), x, y);
    this.hideTip();
    this.frame.request();
  }

  private onKey(event: KeyboardEvent): void {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const { width, height } = this.surface;
    const step = 60;
    switch (event.key) {
      case "ArrowLeft": this.view.pan(step, 0); break;
      case "ArrowRight": this.view.pan(-step, 0); break;
      case "ArrowUp": this.view.pan(0, step); break;
      case "ArrowDown": this.view.pan(0, -step); break;
      case "+":
      case "=": this.view.zoom(1.3, width / 2, height / 2); break;
      case "-": this.view.zoom(1 / 1.3, width / 2, height / 2); break;
      case "0": this.fit(false); break;
      case "Escape": this.select(NONE); break;
      default: return;
    }
    event.preventDefault();
    event.stopPropagation();
    this.frame.request();
  }

  private onClick(x: number, y: number): void {
    const [k, onToggle] = this.at(x, y);
    if (k < 0) this.select(NONE);
    else if (onToggle) {
      const scope = this.painter!.scene.items[k] - this.graph.n;
      this.setOpen(scope, !this.open.has(scope));
    } else this.select(this.painter!.scene.items[k]);
  }

  private hover(x: number, y: number): void {
    const [k, onToggle] = this.at(x, y);
    const item = k < 0 ? NONE : this.painter!.scene.items[k];
    this.stage.style.cursor = onToggle || item !== NONE ? "pointer" : "";
    this.point(item);
    const open = item - this.graph.n > 0 && this.open.has(item - this.graph.n);
    if (item === NONE || open || item !== this.tipItem) this.hideTip();
    if (item === NONE || open) return;
    if (this.tip.hidden) {
      this.tipItem = item;
      this.tipTimer ||= setTimeout(() => this.showTip(item, x, y), TIP_DELAY);
    }
  }

  private hideTip(): void {
    clearTimeout(this.tipTimer);
    this.tipTimer = 0;
    this.tip.hidden = true;
  }

  private showTip(item: number, x: number, y: number): void {
    this.tipTimer = 0;
    this.tip.hidden = false;
    this.tip.textContent = this.sentence(item);
    const { offsetWidth, offsetHeight } = this.tip;
    this.tip.style.left = `${Math.max(4, Math.min(x + 14, this.surface.width - offsetWidth - 4))}px`;
    this.tip.style.top = `${y + 20 + offsetHeight > this.surface.height ? y - offsetHeight - 10 : y + 18}px`;
  }

  /** Index of the drawn item under a point of the stage, and whether the point is on its open/close button. */
  private at(x: number, y: number): [number, boolean] {
    if (!this.painter) return [NONE, false];
    const { scene } = this.painter;
    const [px, py] = this.view.toPlane(x, y);
    const k = hit(scene, px, py);
    if (k < 0 || scene.items[k] < this.graph.n) return [k, false];
    const [left, top, , height] = scene.rects.subarray(4 * k, 4 * k + 4);
    const middle = k < scene.frameCount ? top + HEADER / 2 : top + height / 2;
    return [k, px < left + TOGGLE + 16 && Math.abs(py - middle) <= TOGGLE / 2 + 4];
  }

  // Drawing.

  private onResize(): void {
    if (this.view.untouched) this.fit(true);
    this.draw(); // a canvas is cleared by its resizing
  }

  private draw(): void {
    this.theme ??= readTheme(this.root);
    if (!this.painter || !this.theme || !this.surface.begin()) return;
    const { context, width, height, ratio } = this.surface;
    const { x, y, scale } = this.view;
    context.setTransform(scale * ratio, 0, 0, scale * ratio, -x * scale * ratio, -y * scale * ratio);
    this.painter.paint(new CanvasPen(context, this.theme.font), this.view.window(width, height), { ...this.look, theme: this.theme });
  }

  private rect(item: number): [number, number, number, number] | undefined {
    const k = this.places.get(item);
    if (k === undefined || !this.painter) return undefined;
    const { rects } = this.painter.scene;
    return [rects[4 * k], rects[4 * k + 1], rects[4 * k + 2], rects[4 * k + 3]];
  }

  /** The middle of an item in the coordinates of the page. */
  private locate(name: string): { x: number; y: number } | undefined {
    const place = this.rect(this.graph.itemOf(name));
    if (!place) return undefined;
    const box = this.stage.getBoundingClientRect();
    const [x, y, w, h] = place;
    return { x: box.left + (x + w / 2 - this.view.x) * this.view.scale, y: box.top + (y + h / 2 - this.view.y) * this.view.scale };
  }

  /** What must stay where it is when the drawing changes: an item, or the nearest scope around it that is drawn. */
  private anchorOf(item: number): { item: number; x: number; y: number } | undefined {
    const place = this.rect(item);
    return place && { item, x: place[0], y: place[1] };
  }

  // Words.

  private writeStatus(item: number): void {
    if (item === NONE) {
      const used = new Set([...this.places.keys()].filter((i) => i < this.graph.n).map((i) => this.graph.category(i)));
      const entries = LEGEND.filter(([category]) => used.has(category)).map(([category, label]) => {
        const dot = element("span", { class: "gw-dot" });
        dot.style.setProperty("--gw-dot", `var(--gw-c-${category})`);
        return element("span", { class: "gw-legend" }, dot, label);
      });
      this.status.replaceChildren(...entries);
      return;
    }
    const name = element("strong", {}, this.graph.itemName(item).replace(/\/$/, ""));
    this.status.replaceChildren(name, element("span", { class: "gw-detail" }, this.details(item)));
    this.status.title = this.sentence(item);
  }

  private details(item: number): string {
    const face: Face = describe(this.graph, item);
    if (this.graph.isScope(item)) return `scope · ${face.note}`;
    const call = this.graph.spec.calls[this.graph.call[item]];
    const specs = this.graph.outputSpecs(item).join(", ");
    const inputs: string[] = [];
    for (let e = this.graph.firstInput[item]; e < this.graph.firstInput[item + 1]; e++) {
      const tensor = this.graph.edgeTensor[e];
      inputs.push(`${this.graph.spec.names[this.graph.nodeOf[tensor]]} ${this.graph.spec.specs[this.graph.specOf[tensor]]}`);
    }
    const state = this.look.frozen.has(item) ? " · frozen" : "";
    return `${call} → ${specs}${inputs.length ? `  from  ${inputs.join(" · ")}` : ""}${state}`;
  }

  private sentence(item: number): string {
    return `${this.graph.itemName(item).replace(/\/$/, "")} — ${this.details(item)}`;
  }
}
