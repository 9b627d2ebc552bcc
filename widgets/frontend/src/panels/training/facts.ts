// What the kernel tells of a training, and what the training does beside plain steps: only what is on.

import { ask, isSaved, type Model } from "../../core/afm";
import { element, select } from "../../core/dom";
import { compact, grouped } from "../../core/format";

export interface Training {
  trainer: boolean;
  data: boolean;
  here?: boolean;
  /** The folder in which what was started here is recorded. */
  run?: string;
  step?: number;
  steps?: number;
  total?: number | null;
  epoch?: number;
  epochs?: number;
  seconds?: number;
  left?: number | null;
  pace?: number;
  loss?: string;
  error?: string;
  rate?: number | null;
  schedule?: string;
  aside?: string;
  /** Batches that wait for their update, and how many it takes. */
  window?: [number, number];
  /** Of the loss, and how it moves. */
  scale?: [number, string];
  /** How many steps, and the last of them where it is recorded. */
  skipped?: [number, number | null];
  /** Short, and as a sentence. */
  precision?: [string, string];
  /** Updates in each average of the weights. */
  averages?: Record<string, number>;
  /** The average that validation sees, "" for the weights. */
  evaluated?: string;
  clipping?: string;
}

export const trainingOf = (model: Model): Training => (model.get("training") as Training | undefined) ?? { trainer: false, data: false };

const POWERS = "⁰¹²³⁴⁵⁶⁷⁸⁹";

/** A scale as a power of two where it is one: `65536` is `2¹⁶`. */
export function scaleText(scale: number): string {
  const power = Math.log2(scale);
  if (!Number.isInteger(power) || Math.abs(power) < 4) return compact(scale);
  return `2${power < 0 ? "⁻" : ""}${[...String(Math.abs(power))].map((digit) => POWERS[Number(digit)]).join("")}`;
}

/** The line of methods; `scaleCurve` shows or hides the curve of the loss scale, and tells whether it is shown. */
export function methodLine(model: Model, scaleCurve: { toggle: () => void; shown: () => boolean }): { root: HTMLElement; update: (t: Training) => void } {
  const root = element("div", { class: "gw-methods", role: "group", "aria-label": "What the training does beside plain steps" });
  const evaluate = select("Evaluate with", [], (weights) => ask(model, "training.evaluate", { weights }));
  const choice = element("label", { class: "gw-field gw-evaluate" }, "Evaluate with", evaluate);
  let shape = "";

  const chip = (name: string, label: string, value: string, title: string, ...more: HTMLElement[]): HTMLElement =>
    element("span", { class: "gw-method", "data-method": name, title }, label, ...(value ? [" ", element("b", {}, value)] : []), ...more);

  const update = (t: Training): void => {
    const parts: HTMLElement[] = [];
    if (t.window) {
      const [gathered, of] = t.window;
      const bar = element("i", { class: "gw-method-bar", "aria-hidden": "true" }, element("i", {}));
      bar.style.setProperty("--gw-done", String(gathered / of));
      parts.push(chip("window", "batches", `${grouped(gathered)} / ${grouped(of)}`, `${grouped(of)} batches make one update; ${grouped(gathered)} wait for it`, bar));
    }
    if (t.scale) {
      const [scale, mode] = t.scale;
      const node = element("button", { type: "button", class: "gw-method", "data-method": "scale", "aria-pressed": String(scaleCurve.shown()), title: `The loss is multiplied by ${grouped(scale)} (${mode}). Click for its curve.` }, "loss scale ", element("b", {}, scaleText(scale)));
      node.addEventListener("click", scaleCurve.toggle);
      parts.push(node);
    }
    if (t.skipped) {
      const [count, last] = t.skipped;
      parts.push(chip("skipped", "skipped", `${grouped(count)}${last == null ? "" : `, last at ${grouped(last)}`}`, `${count === 1 ? "1 step was" : `${grouped(count)} steps were`} skipped, since loss or gradient was not finite${last == null ? "" : `; the last was step ${grouped(last)}`}`));
    }
    if (t.precision) parts.push(chip("precision", "", t.precision[0], t.precision[1]));
    if (t.clipping) parts.push(chip("clipping", "clip", t.clipping, "Upper bounds of the gradients"));
    const averages = Object.entries(t.averages ?? {});
    for (const [name, updates] of averages) parts.push(chip("average", name.toUpperCase(), grouped(updates), updates === 1 ? "1 update is in this average of the weights" : `${grouped(updates)} updates are in this average of the weights`));
    if (averages.length) parts.push(choice);
    root.hidden = !parts.length;
    const names = averages.map(([name]) => name).join();
    if (names !== shape) {
      shape = names;
      evaluate.replaceChildren(...[["", "weights"], ...averages.map(([name]) => [name, name.toUpperCase()])].map(([value, text]) => element("option", { value }, text)));
    }
    evaluate.value = t.evaluated ?? "";
    evaluate.disabled = isSaved(model);
    // Only what changed is built anew, so that the focus and an open menu stay where they are.
    parts.forEach((part, k) => {
      const old = root.children[k];
      if (!old) root.append(part);
      else if (old !== part && !old.isEqualNode(part)) {
        const focused = old.matches(":focus");
        old.replaceWith(part);
        if (focused) part.focus();
      }
    });
    while (root.children.length > parts.length) root.lastElementChild!.remove();
  };
  return { root, update };
}
