// The field that finds nodes, and the list of what it has found.

import { describe } from "./describe";
import { find } from "./finder";
import type { GraphModel } from "./model";
import { button, element, ICONS } from "../../core/dom";
import { grouped } from "../../core/format";

/** Rows in the list; all that was found is counted and stands out in the drawing. */
const SHOWN = 100;

export interface SearchEvents {
  /** What is found changes; undefined when nothing is looked for. */
  found(items: number[] | undefined): void;
  /** The row that the arrow keys are on. */
  point(item: number): void;
  /** Enter, or a click. */
  visit(item: number): void;
  leave(): void;
}

let instances = 0;

export class SearchBox {
  readonly root: HTMLElement;
  private readonly prefix = `gw-hit-${++instances}-`;
  private readonly input: HTMLInputElement;
  private readonly count = element("span", { class: "gw-search-count", role: "status" });
  private readonly list = element("div", { class: "gw-hits", role: "listbox", "aria-label": "Found", id: `${this.prefix}list` });
  private items: number[] = [];
  private at = 0;

  constructor(private readonly model: GraphModel, private readonly events: SearchEvents) {
    this.input = element("input", {
      class: "gw-input", type: "text", role: "combobox", "aria-label": "Find nodes and scopes", placeholder: "name, op:matmul or /regex/", spellcheck: "false",
      autocomplete: "off", "aria-expanded": "false", "aria-controls": `${this.prefix}list`, "aria-autocomplete": "list",
    });
    const bar = element("div", { class: "gw-search-bar" }, this.input, this.count, button(ICONS.cross, "Leave the search", () => this.close()));
    this.root = element("div", { class: "gw-search", hidden: true }, bar, this.list);
    this.input.addEventListener("input", () => this.look());
    this.root.addEventListener("keydown", (event) => this.onKey(event));
    this.list.addEventListener("mousedown", (event) => event.preventDefault()); // the field keeps the focus
    this.list.addEventListener("click", (event) => {
      const row = (event.target as HTMLElement).closest<HTMLElement>("[data-hit]");
      if (!row) return;
      this.moveTo(Number(row.dataset.hit));
      this.events.visit(this.items[this.at]);
    });
  }

  get isOpen(): boolean {
    return !this.root.hidden;
  }

  open(): void {
    this.root.hidden = false;
    this.input.focus();
    this.input.select();
    this.look();
  }

  /** Opens on a slash, and on what finds things elsewhere. */
  onShortcut(event: KeyboardEvent): void {
    const find = event.key === "/" ? !event.altKey && !event.ctrlKey && !event.metaKey : event.key.toLowerCase() === "f" && (event.ctrlKey || event.metaKey);
    if (!find) return;
    this.open();
    event.preventDefault();
    event.stopPropagation();
  }

  close(): void {
    this.root.hidden = true;
    this.events.found(undefined);
    this.events.leave();
  }

  /** Looks again: for what is typed, or in what has been opened. */
  look(): void {
    const { items, problem } = find(this.model, this.input.value);
    const asked = this.input.value.trim() !== "";
    this.items = items;
    this.at = 0;
    this.input.setAttribute("aria-invalid", String(problem !== ""));
    this.input.setAttribute("aria-expanded", String(items.length > 0));
    this.list.replaceChildren(...items.slice(0, SHOWN).map((item, k) => this.row(item, k)));
    if (items.length > SHOWN) this.list.append(element("div", { class: "gw-hits-more" }, `${grouped(items.length - SHOWN)} more; type on to narrow the search`));
    this.list.hidden = !items.length;
    this.events.found(asked && !problem ? items : undefined);
    if (problem || !items.length) this.count.textContent = problem || (asked ? "nothing found" : "");
    else this.moveTo(0, false);
  }

  private row(item: number, k: number): HTMLElement {
    const { note, category } = describe(this.model, item);
    const dot = element("span", { class: "gw-dot" });
    dot.style.setProperty("--gw-dot", `var(--gw-c-${category}, var(--gw-c-math))`);
    const name = element("span", { class: "gw-hit-name" }, this.model.itemName(item));
    return element(
      "div", { id: `${this.prefix}${k}`, class: "gw-hit", role: "option", "data-hit": k, title: this.model.itemName(item) },
      dot, name, element("span", { class: "gw-row-note" }, this.model.nodeAt(item) < 0 ? note : this.model.op(this.model.nodeAt(item))),
    );
  }

  private moveTo(k: number, point = true): void {
    this.list.querySelector("[aria-selected=true]")?.setAttribute("aria-selected", "false");
    this.at = k;
    const row = this.list.querySelector(`[data-hit="${k}"]`);
    row?.setAttribute("aria-selected", "true");
    row?.scrollIntoView({ block: "nearest" });
    this.input.setAttribute("aria-activedescendant", row?.id ?? "");
    this.count.textContent = `${grouped(k + 1)} of ${grouped(this.items.length)}`;
    if (point) this.events.point(this.items[k]);
  }

  private onKey(event: KeyboardEvent): void {
    event.stopPropagation(); // what is typed here means nothing to the drawing
    const last = Math.min(SHOWN, this.items.length) - 1;
    if (event.key === "Escape") this.close();
    else if (event.target !== this.input || last < 0) return;
    else if (event.key === "ArrowDown") this.moveTo(this.at < last ? this.at + 1 : 0);
    else if (event.key === "ArrowUp") this.moveTo(this.at > 0 ? this.at - 1 : last);
    else if (event.key === "Enter") this.events.visit(this.items[this.at]);
    else return;
    event.preventDefault();
  }
}
