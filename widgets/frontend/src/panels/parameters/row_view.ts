// One row on the page: built once for its parameter or scope, then brought up to date cell by cell.

import { cutInto } from "../../core/cut";
import { checkbox, element, textButton } from "../../core/dom";
import { icon, ICONS } from "../../core/icons";
import type { Column } from "./columns";
import type { Row } from "./rows";
import { Sparkline } from "./sparkline";
import type { StatisticsStore } from "./statistics";

export interface Actions {
  train(row: Row, trained: boolean): void;
  select(row: Row): void;
  toggle(row: Row): void;
  /** Has the gradient of a parameter explained; undefined where nobody can. */
  explain?(row: Row): void;
}

export interface State {
  store: StatisticsStore;
  frozen: ReadonlySet<string>;
  /** Names whose change the kernel has not answered yet. */
  waiting: ReadonlySet<string>;
  selected: unknown;
}

interface Cell {
  column: Column;
  text: HTMLElement;
  line?: Sparkline;
}

export class RowView {
  readonly node: HTMLTableRowElement;
  readonly link: HTMLButtonElement;
  private readonly box: HTMLInputElement;
  private readonly words = element("span", { class: "gw-words" });
  private readonly why?: HTMLButtonElement;
  private readonly cells: Cell[];

  constructor(private row: Row, columns: readonly Column[], actions: Actions) {
    this.link = textButton("gw-link", "", () => actions.select(this.row), { tabindex: -1 });
    this.box = checkbox((trained) => {
      this.box.indeterminate = true;
      actions.train(this.row, trained);
    }, { tabindex: -1 });
    this.cells = columns.map((column) => ({
      column,
      text: element("span"),
      line: column.history && row.parameter ? new Sparkline(column.history) : undefined,
    }));
    const name = element("div", { class: "gw-name" });
    if (!row.parameter) {
      const opener = textButton("gw-opener", "", () => actions.toggle(this.row), { tabindex: -1, "aria-hidden": "true" });
      opener.append(icon(ICONS.chevron));
      name.append(opener);
    }
    name.append(this.link, this.words);
    if (row.parameter && actions.explain) {
      this.why = textButton("gw-text-link gw-row-why", "why?", () => actions.explain!(this.row), { tabindex: -1, title: "Why is its gradient zero, small or large?" });
      name.append(this.why);
    }
    this.node = element(
      "tr",
      { [row.parameter ? "data-name" : "data-scope"]: row.key },
      element("td", { class: "gw-cell-check" }, this.box),
      element("td", { class: "gw-cell-name" }, name),
      ...this.cells.map(({ column, text, line }) =>
        element("td", { class: column.isNumber ? "gw-cell-number" : "" }, element("div", { class: "gw-cell" }, ...(line ? [line.node] : []), text)),
      ),
    );
    this.node.style.setProperty("--gw-depth", String(row.depth));
  }

  /** The sparkline under a place on the page. */
  lineAt(target: Element): Sparkline | undefined {
    return this.cells.find(({ line }) => line?.node.contains(target))?.line;
  }

  get depth(): number {
    return this.row.depth;
  }

  setTabbable(on: boolean): void {
    this.link.tabIndex = this.box.tabIndex = on ? 0 : -1;
    if (this.why) this.why.tabIndex = this.link.tabIndex;
  }

  update(row: Row, index: number, { store, frozen, waiting, selected }: State): void {
    this.row = row;
    const { node, link, box } = this;
    const group = !row.parameter;
    node.setAttribute("aria-rowindex", String(index + 2));
    node.setAttribute("aria-level", String(row.depth + 1));
    if (group) node.setAttribute("aria-expanded", String(row.open));
    cutInto(link, row.label);
    link.title = row.key;
    link.setAttribute("aria-label", row.key);
    this.why?.setAttribute("aria-label", `Why is the gradient of ${row.key} as it is?`);
    box.setAttribute("aria-label", group ? `Train all of ${row.key}` : `Train ${row.key}`);
    const own = row.members.filter(({ running }) => !running);
    const trained = own.filter(({ name }) => !frozen.has(name)).length;
    const pending = own.some(({ name }) => waiting.has(name));
    box.disabled = !own.length;
    if (!pending) box.checked = own.length > 0 && trained === own.length;
    box.indeterminate = pending || (trained > 0 && trained < own.length);
    node.toggleAttribute("data-waiting", pending);
    node.classList.toggle("gw-frozen", own.length > 0 && !trained);
    node.classList.toggle("gw-selected", selected === row.key);
    this.say(row, !trained, store);
    for (const { column, text, line } of this.cells) {
      setText(text, column.text(row, store));
      if (line) line.draw(store.steps, store.past(row.key, line.column));
    }
  }

  /** What needs a look, in words: flags as marked words, the rest plainly. */
  private say(row: Row, still: boolean, store: StatisticsStore): void {
    const flags = store.flagged(row.members.map(({ name }) => name)).map(([flag, count]) => (row.parameter ? flag : `${count} ${flag}`));
    const plain = row.members.every(({ running }) => running) ? "set by the graph" : still ? "frozen" : "";
    const said = [...flags, plain].join();
    if (this.words.dataset.said === said) return;
    this.words.dataset.said = said;
    this.words.replaceChildren(
      ...flags.map((flag) => element("span", { class: "gw-flag" }, flag)),
      ...(plain ? [element("span", { class: "gw-plain" }, plain)] : []),
    );
  }
}

function setText(node: HTMLElement, text: string): void {
  if (node.textContent !== text) node.textContent = text;
}
