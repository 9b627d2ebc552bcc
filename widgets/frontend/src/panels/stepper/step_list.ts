// The nodes of a level in order of execution, drawn only where they can be seen: 10,000 are as quick as ten.

import type { Cleanup } from "../../core/afm";
import { cutInto } from "../../core/cut";
import { element, everyFrame } from "../../core/dom";
import { grouped, shapeText } from "../../core/format";
import { dimsText, flawText, spanText, type Row, type Stepping, type Steps } from "./steps";

const ROW = 26;
const HEAD = 24;

let lists = 0; // several views may be in one page

export interface ListCalls {
  look: (index: number) => void;
  toggleBreak: (index: number) => void;
  hasBreak: (index: number) => boolean;
  /** Asks for the values of rows from `first` on. */
  want: (first: number) => void;
}

export class StepList {
  readonly root = element("div", { class: "gw-step-list", role: "listbox", tabindex: 0, "aria-label": "Nodes in order of execution" });
  private readonly inner = element("div", { class: "gw-step-rows" });
  private readonly frame = everyFrame(() => this.draw(), this.root);
  private state: Stepping | undefined;
  private before = new Map<number, Row>();
  private wanted = "";
  private readonly prefix = `gw-step-${++lists}-`;

  constructor(private readonly steps: Steps, private readonly calls: ListCalls, cleanup: Cleanup) {
    this.root.append(this.inner);
    cleanup.dom(this.root, "scroll", () => this.frame.request(), { passive: true });
    cleanup.dom(this.root, "click", (event) => {
      const target = event.target as HTMLElement;
      const index = Number(target.closest<HTMLElement>("[data-index]")?.dataset.index ?? NaN);
      if (Number.isNaN(index)) return;
      if (target.closest(".gw-step-gutter")) this.calls.toggleBreak(index);
      else this.calls.look(index);
    });
    cleanup.dom(this.root, "keydown", (event) => {
      const at = this.state?.focus?.index ?? this.state?.position ?? 0;
      const page = Math.max(1, Math.floor(this.root.clientHeight / ROW) - 1);
      const to = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: Infinity }[event.key];
      if (to === undefined || !this.steps.names.length) return;
      event.preventDefault();
      event.stopPropagation();
      this.calls.look(Math.max(0, Math.min(this.steps.names.length - 1, to)));
    });
    const observer = new ResizeObserver(() => this.frame.request());
    observer.observe(this.root);
    cleanup.add(() => {
      observer.disconnect();
      this.frame.cancel();
    });
  }

  /** Shows a state; what is current comes into sight when it has moved. */
  show(state: Stepping, before: readonly Row[]): void {
    const old = this.state;
    this.state = state;
    this.before = new Map(before.map((row) => [row[0], row]));
    const { focus, position } = state;
    const moved = !old || old.level !== state.level || old.position !== position || old.focus?.index !== focus?.index;
    this.inner.style.height = `${this.top(this.steps.names.length)}px`;
    if (moved) {
      const looked = old?.position === position && old?.level === state.level ? focus?.index : Math.min(position, state.count - 1);
      if (looked !== undefined && looked >= 0) this.reveal(looked);
    }
    this.frame.request();
  }

  refresh(): void {
    this.frame.request();
  }

  private get heads(): boolean {
    return this.steps.split > 0 && this.steps.split < this.steps.names.length;
  }

  private top(index: number): number {
    return index * ROW + (this.heads ? HEAD + (index >= this.steps.split ? HEAD : 0) : 0);
  }

  private reveal(index: number): void {
    const [top, view] = [this.top(index), this.root.clientHeight];
    const { scrollTop } = this.root;
    if (top < scrollTop + ROW || top + 2 * ROW > scrollTop + view) this.root.scrollTop = Math.max(0, top - Math.max(ROW, view / 3));
  }

  private draw(): void {
    const { state, steps } = this;
    if (!state || state.level !== steps.level) return void this.inner.replaceChildren();
    const view = this.root.clientHeight;
    const near = Math.max(0, Math.floor((this.root.scrollTop - 2 * HEAD) / ROW) - 2);
    const end = Math.min(steps.names.length, near + Math.ceil(view / ROW) + 6);
    const rows: HTMLElement[] = [];
    if (this.heads) {
      if (near === 0) rows.push(this.head("Forward", 0, steps.split));
      if (near <= steps.split && steps.split < end) rows.push(this.head("Backward", this.top(steps.split) - HEAD, steps.names.length - steps.split));
    }
    for (let i = near; i < end; i++) rows.push(this.row(i, state));
    this.inner.replaceChildren(...rows);
    this.root.setAttribute("aria-activedescendant", rows.find((row) => row.ariaSelected === "true")?.id ?? "");
    const missing = view ? steps.missing(near, Math.min(end, state.position), state.epoch) : undefined;
    const asked = `${state.level}/${state.epoch}/${missing}`;
    if (missing !== undefined && asked !== this.wanted && state.mode === "ready") {
      this.wanted = asked;
      this.calls.want(missing);
    }
  }

  private head(title: string, top: number, count: number): HTMLElement {
    const head = element("div", { class: "gw-step-head", role: "presentation" }, title, element("span", {}, ` ${grouped(count)}`));
    head.style.top = `${top}px`;
    return head;
  }

  private row(index: number, state: Stepping): HTMLElement {
    const { steps } = this;
    const known = index < state.position ? steps.row(index) : undefined;
    const stage = index === state.failed ? "failed" : index < state.position ? "done" : index === state.position ? "current" : "todo";
    const [low, high, nan, inf, shape] = known ? known.slice(1) as [number | null, number | null, number, number, number[]] : [null, null, 0, 0, undefined];
    const was = known && this.before.get(index);
    const span = spanText(low, high);
    const flaw = flawText(nan, inf);
    const broken = this.calls.hasBreak(index);
    const words = { failed: "failed here", done: "done", current: "runs next", todo: "to do" }[stage];
    const row = element(
      "div",
      {
        class: "gw-step", role: "option", id: `${this.prefix}${index}`, "data-index": index, "data-stage": stage, title: steps.names[index],
        "aria-selected": String(index === state.focus?.index),
        "aria-label": `${steps.names[index]}, ${steps.op(index)}, ${words}${broken ? ", breakpoint" : ""}${span ? `, ${span}` : ""}${flaw ? `, ${flaw}` : ""}`,
      },
      element("span", { class: broken ? "gw-step-gutter gw-step-break" : "gw-step-gutter", title: broken ? "Remove the breakpoint" : "Break here" }),
      element("span", { class: "gw-step-mark" }),
      cutInto(element("span", { class: "gw-step-name" }), steps.names[index]),
      element("span", { class: "gw-step-op" }, steps.op(index)),
      element("span", { class: "gw-step-shape" }, shape ? shapeText(shape) : dimsText(steps.spec(index))),
      element("span", { class: "gw-step-value" }),
    );
    const value = row.lastElementChild!;
    if (was) value.append(element("s", { title: "before the edit" }, spanText(was[1], was[2]) || flawText(was[3], was[4])), " → ");
    value.append(span);
    if (flaw) value.append(element("span", { class: "gw-step-flaw" }, flaw));
    if (was) row.dataset.changed = "true";
    row.style.top = `${this.top(index)}px`;
    return row;
  }
}
