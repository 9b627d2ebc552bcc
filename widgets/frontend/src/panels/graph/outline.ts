// The graph as a tree of names: what a screen reader reads and where the keyboard moves. It lists the same items as
// the drawing, and only the rows in sight exist as elements.

import { describe } from "./model/describe";
import type { Marks } from "./picture/marks";
import type { GraphModel } from "./model/model";
import { cutInto } from "../../core/cut";
import { element, everyFrame } from "../../core/dom";

const ROW = 26;

interface Row {
  item: number;
  level: number;
  position: number;
  siblings: number;
  parent: number;
}

export interface OutlineEvents {
  select(item: number): void;
  point(item: number): void;
  setOpen(item: number, open: boolean): void;
}

let instances = 0;

export class Outline {
  readonly root: HTMLElement;
  private readonly list: HTMLElement;
  private readonly frame = everyFrame(() => this.render());
  private readonly prefix = `gw-row-${++instances}-`;
  private rows: Row[] = [];
  private open = new Set<number>();
  private cursor = 0;
  /** The title of the row at the cursor, which stays there whatever is opened. */
  private at = "";
  private selected = -1;
  private marks: Marks | undefined;

  constructor(private readonly model: GraphModel, private readonly events: OutlineEvents) {
    this.list = element("div", { role: "presentation" });
    this.root = element("div", { class: "gw-outline", role: "tree", tabindex: 0, "aria-label": `Outline of ${model.spec.name}` }, this.list);
    this.root.addEventListener("scroll", this.frame.request);
    this.root.addEventListener("keydown", (event) => this.onKey(event));
    this.root.addEventListener("focus", () => this.moveTo(this.cursor));
    this.root.addEventListener("blur", () => events.point(-1));
    this.root.addEventListener("click", (event) => this.onClick(event));
    this.root.addEventListener("dblclick", (event) => this.onClick(event, true));
  }

  update(open: Set<number>, selected: number): void {
    this.open = open;
    this.selected = selected;
    this.rows = this.flatten();
    this.cursor = Math.max(0, this.rows.findIndex((row) => this.titleOf(row.item) === this.at));
    this.list.style.height = `${this.rows.length * ROW}px`;
    this.frame.request();
  }

  mark(marks: Marks): void {
    this.marks = marks;
    this.frame.request();
  }

  /** Depth first with a stack: scopes may be nested as deeply as names allow. */
  private flatten(): Row[] {
    const rows: Row[] = [];
    const childrenOf = (scope: number, level: number, parent: number): Row[] => {
      const items = this.model.children(scope);
      return items.map((item, k) => ({ item, level, position: k + 1, siblings: items.length, parent })).reverse();
    };
    const pending = childrenOf(0, 1, -1);
    for (let row = pending.pop(); row; row = pending.pop()) {
      rows.push(row);
      const scope = row.item - this.model.n;
      if (scope >= 0 && this.open.has(scope)) pending.push(...childrenOf(scope, row.level + 1, rows.length - 1));
    }
    return rows;
  }

  private render(): void {
    const { scrollTop, clientHeight } = this.root;
    const first = Math.max(0, Math.floor(scrollTop / ROW) - 4);
    const last = Math.min(this.rows.length, Math.ceil((scrollTop + clientHeight) / ROW) + 4);
    const shown: HTMLElement[] = [];
    for (let k = first; k < last; k++) shown.push(this.rowElement(k));
    this.list.replaceChildren(...shown);
    if (this.rows.length) this.root.setAttribute("aria-activedescendant", `${this.prefix}${this.cursor}`);
  }

  private rowElement(k: number): HTMLElement {
    const { item, level, position, siblings } = this.rows[k];
    const face = describe(this.model, item);
    const scope = item - this.model.n;
    const state = this.stateOf(item);
    const node = element(
      "div",
      {
        id: `${this.prefix}${k}`, class: "gw-row", role: "treeitem", "data-row": k,
        "aria-level": level, "aria-posinset": position, "aria-setsize": siblings,
        "aria-selected": item === this.selected ? "true" : "false",
        "aria-expanded": this.model.opens(item) ? (this.open.has(scope) ? "true" : "false") : undefined,
        "aria-current": this.marks?.current === item ? "step" : undefined,
        title: this.titleOf(item), "aria-label": [face.title, state, face.note].filter(Boolean).join(" "),
      },
      element("span", { class: this.model.opens(item) ? "gw-caret" : "gw-dot" }),
      cutInto(element("span", { class: "gw-row-title" }), face.title),
      ...(state ? [element("span", { class: "gw-row-state" }, state)] : []),
      element("span", { class: "gw-row-note" }, face.note),
    );
    node.style.transform = `translateY(${k * ROW}px)`;
    node.style.paddingLeft = `min(${8 + 14 * (level - 1)}px, 45%)`; // what is nested deeply keeps room for its name
    node.style.setProperty("--gw-dot", `var(--gw-c-${face.category}, var(--gw-c-math))`);
    if (k === this.cursor) node.classList.add("gw-cursor");
    return node;
  }

  /** The name of an item; what makes the results of an opened node has the name of its frame. */
  private titleOf(item: number): string {
    return this.model.itemName(item) + (this.model.isOpened(item) ? ", its result" : "");
  }

  private stateOf(item: number): string {
    const { marks } = this;
    if (!marks) return "";
    const states = [marks.current === item && "▸ next", marks.stops.has(item) && "● stop", marks.blamed.has(item) && "⚠ at fault"];
    return states.filter(Boolean).join(" ");
  }

  private moveTo(k: number): void {
    this.cursor = Math.max(0, Math.min(this.rows.length - 1, k));
    const top = this.cursor * ROW;
    const { scrollTop, clientHeight } = this.root;
    if (top < scrollTop) this.root.scrollTop = top;
    else if (top + ROW > scrollTop + clientHeight) this.root.scrollTop = top + ROW - clientHeight;
    const row = this.rows[this.cursor];
    this.at = row ? this.titleOf(row.item) : "";
    if (row) this.events.point(row.item);
    this.frame.request();
  }

  private onClick(event: MouseEvent, double = false): void {
    const target = event.target as HTMLElement;
    const row = target.closest<HTMLElement>("[data-row]");
    if (!row) return;
    const k = Number(row.dataset.row);
    const { item } = this.rows[k];
    this.moveTo(k);
    const scope = item - this.model.n;
    if (this.model.opens(item) && (double || target.classList.contains("gw-caret"))) this.events.setOpen(item, !this.open.has(scope));
    else if (!double) this.events.select(item);
  }

  private onKey(event: KeyboardEvent): void {
    const row = this.rows[this.cursor];
    if (!row || event.altKey || event.ctrlKey || event.metaKey) return;
    const scope = row.item - this.model.n;
    const opens = this.model.opens(row.item);
    const isOpen = opens && this.open.has(scope);
    switch (event.key) {
      case "ArrowDown": this.moveTo(this.cursor + 1); break;
      case "ArrowUp": this.moveTo(this.cursor - 1); break;
      case "Home": this.moveTo(0); break;
      case "End": this.moveTo(this.rows.length - 1); break;
      case "ArrowRight":
        if (isOpen) this.moveTo(this.cursor + 1);
        else if (opens) this.events.setOpen(row.item, true);
        break;
      case "ArrowLeft":
        if (isOpen) this.events.setOpen(row.item, false);
        else if (row.parent >= 0) this.moveTo(row.parent);
        break;
      case "Enter":
        if (opens && scope >= 0) this.events.setOpen(row.item, !isOpen);
        else this.events.select(row.item);
        break;
      case " ": this.events.select(row.item); break;
      default: return;
    }
    event.preventDefault();
    event.stopPropagation();
  }
}
