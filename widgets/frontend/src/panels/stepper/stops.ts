// Breakpoints with their places and conditions, and watched expressions.

import type { Request } from "../../core/contract";
import { action, button, checkbox, element, select, ICONS } from "../../core/dom";
import { counted } from "../../core/format";

export interface BreakpointFacts {
  number: number;
  text: string;
  on: boolean;
  hits: number;
}

export interface WatchFacts {
  text: string;
  value?: string;
  error?: string;
  waits?: boolean;
}

export type Tell = (kind: Request, facts: Record<string, unknown>) => void;

const PLACES = [["name", "Name"], ["op", "Op"], ["scope", "Scope"], ["regex", "Regex"], ["", "Any node"]] as const;
const CONDITIONS = [["", "always"], ["nan", "if NaN"], ["inf", "if Inf"], ["above", "if |max| above"], ["when", "if expression"]] as const;
const HINTS: Record<string, string> = { name: "hidden/*", op: "matmul", scope: "hidden", regex: "w\\d+$", above: "10", when: "abs(value).mean() > 3" };

/** A form and a list; with `live` false there is only the list. */
export class Breakpoints {
  readonly root = element("div");
  private readonly list = element("div", { role: "list" });
  private readonly text = element("input", { class: "gw-input", "aria-label": "Pattern" });
  private asked = false; // for a breakpoint: what was typed stays until it is there
  private count = 0;

  constructor(private readonly tell: Tell, private readonly live: boolean, breakHere: () => void) {
    const text = this.text;
    const limit = element("input", { class: "gw-input", "aria-label": "Bound or expression" });
    const place = select("Where to stop", PLACES, () => update());
    const condition = select("When to stop", CONDITIONS, () => update());
    const update = (): void => {
      text.hidden = !place.value;
      text.placeholder = HINTS[place.value] ?? "";
      limit.hidden = !HINTS[condition.value];
      limit.placeholder = HINTS[condition.value] ?? "";
    };
    const form = element("form", { class: "gw-step-form", "aria-label": "New breakpoint" }, place, text, condition, limit, element("button", { type: "submit", class: "gw-action gw-action-main" }, "Add"), action("Break here", breakHere));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.asked = true;
      tell("stepper.break", { place: place.value, text: text.value, condition: condition.value, limit: limit.value });
    });
    update();
    if (live) this.root.append(form);
    this.root.append(this.list);
  }

  show(found: readonly BreakpointFacts[]): void {
    if (this.asked && found.length > this.count) {
      this.asked = false;
      this.text.value = "";
    }
    this.count = found.length;
    const rows = found.map(({ number, text, on, hits }) => {
      const box = checkbox((now) => this.tell("stepper.breakpoint", { numbers: [number], on: now }), { "aria-label": `Breakpoint ${number} is on`, checked: on, disabled: !this.live });
      const row = element("div", { class: on ? "gw-step-entry" : "gw-step-entry gw-step-off", role: "listitem" }, box, element("span", { class: "gw-code gw-step-text", title: text }, text), element("span", { class: "gw-subtitle" }, counted(hits, "hit")));
      if (this.live) row.append(button(ICONS.cross, `Remove breakpoint ${number}`, () => this.tell("stepper.breakpoint", { numbers: [number] })));
      return row;
    });
    this.list.replaceChildren(...(rows.length ? rows : [element("div", { class: "gw-step-none" }, "No breakpoints. Click beside a node, or press . to stop at the one in view.")]));
  }
}

export class Watches {
  readonly root = element("div");
  private readonly list = element("div", { role: "list" });

  constructor(private readonly tell: Tell, private readonly live: boolean) {
    const text = element("input", { class: "gw-input gw-code", "aria-label": "Expression", placeholder: 'norm(t["hidden/w"])' });
    const form = element("form", { class: "gw-step-form", "aria-label": "New watch" }, text, element("button", { type: "submit", class: "gw-action gw-action-main" }, "Watch"));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (text.value.trim()) tell("stepper.watch", { text: text.value });
    });
    if (live) this.root.append(form);
    this.root.append(this.list);
  }

  show(found: readonly WatchFacts[]): void {
    const rows = found.map(({ text, value, error, waits }) => {
      const result = error ? element("span", { class: "gw-step-wrong", title: error }, error.split("\n")[0]) : element("span", { class: waits ? "gw-subtitle" : "gw-step-result", title: value ?? "" }, waits ? "not computed yet" : (value ?? ""));
      const row = element("div", { class: "gw-step-entry", role: "listitem" }, element("span", { class: "gw-code gw-step-text", title: text }, text), result);
      if (this.live) row.append(button(ICONS.cross, `Remove the watch ${text}`, () => this.tell("stepper.watch", { text, remove: true })));
      return row;
    });
    this.list.replaceChildren(...(rows.length ? rows : [element("div", { class: "gw-step-none" }, 'Nothing is watched. An expression may use t["name"], numbers and abs, max, mean, norm, std, sum …')]));
  }
}
