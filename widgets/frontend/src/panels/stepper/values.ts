// The node that is looked at: its op, the user's line, and what is at its inputs and outputs, each to be edited.

import { nameLink } from "../../core/cut";
import { action, button, element, select, ICONS } from "../../core/dom";
import { compact } from "../../core/format";
import type { Theme } from "../../core/theme";
import { thumb } from "../../core/thumb";
import { flawText, spanText, type Focus, type Stepping, type TensorFacts } from "./steps";

export interface ValueCalls {
  selectNode: (name: string) => void;
  showTensor: (name: string) => void;
  edit: (facts: Record<string, unknown>) => void;
  rerun: () => void;
  /** Whether values can be changed. */
  live: boolean;
}

const WAYS = [["element", "Elements at"], ["fill", "All to"], ["scale", "Times"], ["literal", "List"]] as const;

export class Values {
  readonly root = element("div");
  private theme: Theme | undefined;
  private editing = "";
  private shown = "";

  constructor(private readonly calls: ValueCalls) {}

  setTheme(theme: Theme | undefined): void {
    if (theme !== this.theme) this.shown = "";
    this.theme = theme;
  }

  show(state: Stepping): void {
    const { focus, say, tone } = state;
    const key = JSON.stringify([focus && { ...focus, tensors: focus.tensors.map(({ thumb, ...facts }) => facts) }, say, tone, state.pending, state.epoch]);
    if (key === this.shown) return;
    const typing = this.root.contains(document.activeElement) && this.shown !== "" && this.editing;
    this.shown = key;
    if (typing && focus?.tensors.some(({ name }) => name === this.editing)) {
      const fields = [...this.root.querySelectorAll<HTMLInputElement | HTMLSelectElement>(".gw-step-editor :is(input, select)")].map(({ value }) => value);
      const at = (document.activeElement as HTMLElement | null)?.dataset.field;
      this.fill(state);
      this.root.querySelectorAll<HTMLInputElement>(".gw-step-editor :is(input, select)").forEach((control, k) => {
        control.value = fields[k];
        control.dispatchEvent(new Event("change"));
        if (control.dataset.field === at) control.focus();
      });
    } else this.fill(state);
  }

  private fill({ focus, say, tone, pending }: Stepping): void {
    const parts: HTMLElement[] = [];
    if (say.includes("\n")) parts.push(element("div", { class: "gw-step-report", "data-tone": tone || "stop", role: tone === "error" ? "alert" : "status" }, say));
    if (focus) parts.push(this.heading(focus), ...focus.tensors.flatMap((facts) => this.tensor(facts)));
    if (pending) {
      const text = `${pending} ${pending === 1 ? "node depends" : "nodes depend"} on the edit.`;
      parts.push(element("div", { class: "gw-step-pending" }, text, action("Rerun", this.calls.rerun, true)));
    }
    this.root.replaceChildren(...parts);
  }

  private heading(focus: Focus): HTMLElement {
    const link = nameLink(focus.path, () => this.calls.selectNode(focus.name), `Select ${focus.path} in the drawing`);
    const note = [focus.of ? `gradient of ${focus.of}` : "", focus.where].filter(Boolean).join(" · ");
    return element("div", { class: "gw-step-node" }, link, element("div", { class: "gw-code gw-step-call", title: focus.op }, focus.op), element("div", { class: "gw-step-note" }, note));
  }

  private tensor(facts: TensorFacts): HTMLElement[] {
    const known = facts.range !== undefined;
    const name = nameLink(facts.name, () => this.calls.showTensor(facts.path ?? facts.name), `Show ${facts.name}`);
    const numbers = element("div", { class: "gw-step-numbers" });
    if (facts.range) {
      const [low, high, nan, inf] = facts.range;
      const span = facts.text ?? spanText(low, high);
      const more = facts.mean !== undefined && low !== high && !facts.text ? ` · mean ${compact(facts.mean)} · std ${compact(facts.std ?? 0)}` : "";
      numbers.append(span || (nan || inf ? "nothing finite" : "empty"), more);
      if (nan || inf) numbers.append(element("span", { class: "gw-step-flaw" }, flawText(nan, inf)));
    } else numbers.append("not computed yet");
    const row = element(
      "div",
      { class: "gw-step-tensor", "data-tensor": facts.name, "data-side": facts.side },
      thumb(facts.thumb, ...(facts.thumb_shape ?? [0, 0]), this.theme, "gw-step-thumb"),
      element("div", { class: "gw-step-about" }, element("div", { class: "gw-step-title" }, element("span", { class: "gw-chip" }, facts.side), name, element("span", { class: "gw-step-spec" }, facts.spec)), numbers),
    );
    if (!known || !this.calls.live || facts.fixed) return [row];
    const edit = button(ICONS.edit, `Edit ${facts.name}`, () => {
      this.editing = this.editing === facts.name ? "" : facts.name;
      editor.hidden = this.editing !== facts.name;
      this.root.querySelectorAll<HTMLElement>(".gw-step-editor").forEach((other) => (other.hidden = other !== editor || editor.hidden));
      if (!editor.hidden) editor.querySelector<HTMLInputElement>("input:not([hidden])")?.focus();
    });
    row.append(edit);
    const editor = this.editor(facts);
    return [row, editor];
  }

  private editor(facts: TensorFacts): HTMLElement {
    const scalar = /\[\]$/.test(facts.spec);
    const way = select("How to change it", scalar ? [["literal", "Set to"], WAYS[2]] : WAYS, () => update());
    const index = element("input", { class: "gw-input gw-step-index", "aria-label": "Index", placeholder: "0, 3", "data-field": "index" });
    const value = element("input", { class: "gw-input gw-step-new", "aria-label": "New value", "data-field": "value" });
    const update = (): void => {
      index.hidden = way.value !== "element";
      value.placeholder = { element: "value", fill: "value", scale: "factor", literal: scalar ? "value" : "[[1, 2], [3, 4]]" }[way.value] ?? "";
    };
    way.addEventListener("change", update);
    const form = element("form", { class: "gw-step-editor", "aria-label": `Edit ${facts.name}`, hidden: this.editing !== facts.name }, way, index, value);
    const set = (rerun: boolean): void => this.calls.edit({ name: facts.path ?? facts.name, how: way.value, index: index.value, value: value.value, rerun });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      set(true);
    });
    form.append(action("Set", () => set(false)), element("button", { type: "submit", class: "gw-action gw-action-main" }, "Set and rerun"));
    update();
    return form;
  }
}
