// The field that finds nodes, and the list of what it has found.

import { describe } from "./model/describe";
import { find, prepare } from "./model/finder";
import type { GraphModel } from "./model/model";
import { leaf, pathOf } from "./model/names";
import { EXAMPLES } from "./model/query";
import { cutInto } from "../../core/cut";
import { button, element, ICONS } from "../../core/dom";
import { grouped } from "../../core/format";

/** Rows in the list; all that was found is counted and stands out in the drawing. */
const SHOWN = 100;

export interface SearchEvents {
  /** What is found, with all nodes on paths, changes; undefined when nothing is looked for. */
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
  /** Of each item the path that begins at it, where paths are looked for. */
  private paths: number[][] | undefined;
  private at = 0;

  constructor(private readonly model: GraphModel, private readonly events: SearchEvents) {
    this.input = element("input", {
      class: "gw-input", type: "text", role: "combobox", "aria-label": "Find nodes and scopes", placeholder: "name, op:conv*, [B, *, 64], a -> b", spellcheck: "false",
      autocomplete: "off", "aria-expanded": "false", "aria-controls": `${this.prefix}list`, "aria-autocomplete": "list",
    });
    const bar = element("div", { class: "gw-search-bar" }, this.input, this.count, button(ICONS.cross, "Leave the search", () => this.close()));
    this.root = element("div", { class: "gw-search", hidden: true }, bar, this.list);
    this.input.addEventListener("input", () => this.look());
    this.root.addEventListener("keydown", (event) => this.onKey(event));
    this.list.addEventListener("mousedown", (event) => event.preventDefault()); // the field keeps the focus
    this.list.addEventListener("click", (event) => {
      const row = (event.target as HTMLElement).closest<HTMLElement>("[data-hit], [data-example]");
      if (row?.dataset.example) {
        this.input.value = row.dataset.example;
        this.look();
      }
      if (!row?.dataset.hit) return;
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
    setTimeout(() => prepare(this.model)); // once the field is there
  }

  /** Opens on a slash and on what finds things elsewhere; goes on to the next or the previous hit on F3 and Ctrl G. */
  onShortcut(event: KeyboardEvent): void {
    const held = event.ctrlKey || event.metaKey;
    const key = event.key.toLowerCase();
    if (key === "f3" || (key === "g" && held)) this.step(event.shiftKey ? -1 : 1);
    else if (key === "/" ? !event.altKey && !held : key === "f" && held) this.open();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** Goes to the next hit, or to the previous one; what was looked for last is looked for again. */
  private step(by: number): void {
    if (!this.isOpen) this.open();
    const count = Math.min(SHOWN, this.items.length);
    if (!count) return;
    this.moveTo((this.at + by + count) % count);
    this.events.visit(this.items[this.at]);
  }

  close(): void {
    this.root.hidden = true;
    this.events.found(undefined);
    this.events.leave();
  }

  /** Looks again: for what is typed, or in what has been opened. */
  look(): void {
    const { items, paths, lit, problem } = find(this.model, this.input.value);
    const asked = this.input.value.trim() !== "";
    this.items = items;
    this.paths = paths;
    this.at = 0;
    this.input.setAttribute("aria-invalid", String(problem !== ""));
    this.input.setAttribute("aria-expanded", String(items.length > 0));
    this.list.replaceChildren(...items.slice(0, SHOWN).map((item, k) => this.row(item, k)));
    if (items.length > SHOWN) this.list.append(element("div", { class: "gw-hits-more" }, `${grouped(items.length - SHOWN)} more; type on to narrow the search`));
    if (!asked) this.list.replaceChildren(...EXAMPLES.map(example));
    this.list.hidden = asked && !items.length;
    this.events.found(asked && !problem ? (lit ? [...items, ...lit] : items) : undefined);
    if (problem || !items.length) this.count.textContent = problem || (asked ? "nothing found" : "");
    else this.moveTo(0, false);
  }

  private row(item: number, k: number): HTMLElement {
    const { note, category } = describe(this.model, item);
    const dot = element("span", { class: "gw-dot" });
    dot.style.setProperty("--gw-dot", `var(--gw-c-${category}, var(--gw-c-math))`);
    const path = this.paths?.[k] ?? [];
    const text = path.length > 1 ? path.map((step) => leaf(this.model.itemName(step))).join(" → ") : this.model.itemName(item);
    const node = this.model.nodeAt(item);
    const [beside, whole] = path.length > 1 ? [pathOf(this.model.itemName(item)), path.map((step) => this.model.itemName(step)).join(" → ")] : [node < 0 ? note : this.model.op(node), text];
    return element(
      "div", { id: `${this.prefix}${k}`, class: "gw-hit", role: "option", "data-hit": k, title: whole, "aria-label": `${text} ${beside}` },
      dot, cutInto(element("span", { class: "gw-hit-name" }), text), element("span", { class: "gw-row-note" }, beside),
    );
  }

  /** Moves to a row of the list. */
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
    if (event.key !== "/") this.onShortcut(event);
    event.stopPropagation(); // what is typed here means nothing to the drawing
    if (event.defaultPrevented) return;
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

/** What can be typed, as long as nothing is; a click types it. */
function example([text, meaning]: [string, string]): HTMLElement {
  return element(
    "div", { class: "gw-hit", role: "option", "data-example": text },
    element("span", { class: "gw-code" }, text), element("span", { class: "gw-row-note" }, meaning),
  );
}
