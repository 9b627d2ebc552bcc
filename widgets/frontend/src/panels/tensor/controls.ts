// What is above the picture: name, slice, axes, colours, and copying.

import { copyText } from "../../core/clipboard";
import { ask, commit, isSaved, type Cleanup, type Model, type Named } from "../../core/afm";
import type { Traits } from "../../core/contract";
import { cutInto } from "../../core/cut";
import { button, checkbox, element, field, ICONS, select } from "../../core/dom";
import type { TensorFacts } from "./picture";

const TRANSPOSE = "M3 8.5V3h5.5M13 7.5V13H7.5M4 12l8-8";
const PLANES = "M2.5 2.5H7V7H2.5zM9 2.5h4.5V7H9zM2.5 9H7v4.5H2.5zM9 9h4.5v4.5H9z";
const NUMBERS = "M6.5 2.5l-1.5 11M11 2.5L9.5 13.5M2.5 6h11M2.5 10h11";
const LOOK = "M8 2.5a5.5 5.5 0 1 0 0 11a5.5 5.5 0 1 0 0-11M8 2.5v11M8 5.5h4.5M8 8h5.4M8 10.5h4.5";
const VALUES = "M5.5 3H3v10h2.5M10.5 3H13v10h-2.5M6.5 10.5h.01M9.5 10.5h.01";
const SLIDE = 40; // ms between two slices while a slider moves

export interface Problem {
  text: string;
  at: number;
  length: number;
}

export interface Controls {
  /** Shows what is known; `reduced` if cells stand for several values. */
  update(facts: TensorFacts | undefined, reduced: boolean): void;
  /** Shows why a slice was refused, or that the last one fits. */
  judge(problem?: Problem): void;
}

/** A button that is pressed while a trait is true. */
export function toggle(model: Model, updates: (() => void)[], path: string, label: string, trait: Named<boolean>): HTMLButtonElement {
  const node = button(path, label, () => commit(model, trait, !model.get(trait)));
  updates.push(() => node.setAttribute("aria-pressed", String(Boolean(model.get(trait)))));
  return node;
}

/** Builds the controls into `root`; `say` tells what was copied, `recut` moves a slice without a kernel. */
export function mountControls(root: HTMLElement, model: Model, cleanup: Cleanup, say: (text: string) => void, recut: (axis: number, at: number) => void): Controls {
  const saved = isSaved(model);
  const updates: (() => void)[] = [];
  let facts: TensorFacts | undefined;
  const setIndex = (text: string): void => ask(model, "tensor.index", { text });
  const tiled = (): boolean => (facts?.slice?.length ?? 0) > 2;

  async function copy(text: string | undefined): Promise<void> {
    if (text && (await copyText(problem, text))) say(text.length > 120 ? `${text.slice(0, 120)}…` : text);
  }

  const title = element("span", { class: "gw-title" });
  const subtitle = element("span", { class: "gw-subtitle" });
  const output = select("Output of the node", [], (value) => commit(model, "tensor", value));
  const code = button(ICONS.copy, "Copy as code", () => void copy(facts?.code));
  const values = button(VALUES, "", () => void copy(facts?.literal));
  const follow = toggle(model, updates, ICONS.target, "Follow the selected node", "tensor_follows");
  const index = element("input", {
    class: "gw-input gw-code", "aria-label": "Slice", spellcheck: "false", autocomplete: "off", placeholder: "[0, :, ::2, -1]",
    title: "A slice as in numpy: integers, a:b:c, ... and None; Enter shows it",
  });
  const planes = select("Axes drawn as rows × columns", [], (value) => commit(model, "tensor_plane", value.split(",").map(Number)));
  const tile = button(PLANES, "All planes side by side", () => setIndex(tiled() ? "" : "[...]"));
  const transpose = button(TRANSPOSE, "Swap rows and columns", () => commit(model, "tensor_plane", [...facts!.plane].reverse()));
  const numbers = toggle(model, updates, NUMBERS, "Numbers instead of colours", "tensor_numbers");
  const more = button(LOOK, "Colours and range", () => {
    look.hidden = !look.hidden;
    more.setAttribute("aria-pressed", String(!look.hidden));
  });
  const problem = element("div", { class: "gw-tensor-problem", role: "alert", hidden: true });
  const sliders = element("div", { class: "gw-tensor-sliders", hidden: true });
  const look = element("div", { class: "gw-tensor-look", hidden: true });
  root.append(
    element("header", { class: "gw-toolbar" }, title, subtitle, element("span", { class: "gw-space" }), output, code, values, follow),
    element("div", { class: "gw-tensor-bar" }, index, planes, tile, transpose, numbers, more),
    problem, sliders, look,
  );

  // -- colours and range -------------------------------------------------------------------------

  const menu = <K extends Named<string>>(trait: K, label: string, options: [Traits[K], string][]): HTMLLabelElement => {
    const control = select(label, options, (value) => commit(model, trait, value));
    updates.push(() => (control.value = String(model.get(trait))));
    return field(label, control);
  };
  const ends = (): number[] => [...(model.get("tensor_limits") as number[])];
  const limits = ["Lowest value", "Highest value"].map((label, k) => {
    const input = element("input", { class: "gw-input", type: "number", step: "any", "aria-label": label });
    input.addEventListener("change", () => commit(model, "tensor_limits", Object.assign(ends(), Number.isFinite(input.valueAsNumber) && { [k]: input.valueAsNumber })));
    updates.push(() => {
      input.value = String(ends()[k]);
      input.hidden = model.get("tensor_range") !== "fixed";
    });
    return input;
  });
  const log = checkbox((on) => commit(model, "tensor_log", on), { title: "Colour by the logarithm of the magnitude, six powers of ten" });
  updates.push(() => (log.checked = Boolean(model.get("tensor_log"))));
  const cells = menu("tensor_cells", "Cell", [["largest", "largest magnitude"], ["mean", "mean"]]);
  const part = menu("tensor_part", "Part", [["real", "real"], ["imag", "imaginary"], ["abs", "magnitude"], ["angle", "angle"]]);
  const scope = menu("tensor_scope", "About", [["tensor", "whole tensor"], ["slice", "this slice"]]);
  for (const node of [part, scope]) node.querySelector("select")!.disabled = saved;
  look.append(
    menu("tensor_colors", "Colours", [["auto", "automatic"], ["diverging", "diverging"], ["sequential", "sequential"], ["gray", "grey"]]),
    menu("tensor_range", "Range", [["full", "min to max"], ["symmetric", "symmetric"], ["robust", "1 to 99 %"], ["fixed", "by hand"]]),
    ...limits, field("Log", log), cells, part, scope,
  );

  // -- the slice ---------------------------------------------------------------------------------

  cleanup.dom(index, "keydown", (event) => {
    if (event.key === "Enter") setIndex(index.value);
    else if (event.key === "Escape") judge();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  cleanup.dom(index, "change", () => setIndex(index.value));
  cleanup.dom(index, "input", () => index.removeAttribute("aria-invalid"));

  function judge(found?: Problem): void {
    problem.textContent = found?.text ?? "";
    problem.hidden = !found;
    if (!found) {
      index.removeAttribute("aria-invalid");
      index.value = facts && facts.note === undefined ? facts.index : "";
    } else {
      index.setAttribute("aria-invalid", "true");
      if (index.matches(":focus")) index.setSelectionRange(found.at, found.at + found.length);
    }
  }

  let sliding: ReturnType<typeof setTimeout> | undefined;
  cleanup.add(() => clearTimeout(sliding));
  function moveTo(axis: number, at: number): void {
    if (saved) {
      recut(axis, at);
      return;
    }
    let k = -1;
    const text = facts!.parts.map((entry) => (entry !== "None" && ++k === axis ? String(at) : entry)).join(", ");
    clearTimeout(sliding);
    sliding = setTimeout(() => setIndex(`[${text}]`), SLIDE);
  }

  /** A slider for each axis that is at one index. */
  function updateSliders(known: TensorFacts | undefined): void {
    const wanted = known ? known.axes.flatMap(([at, , axis], k) => (axis < 0 && known.shape[k] > 1 ? [{ axis: k, at, size: known.shape[k] }] : [])) : [];
    sliders.hidden = !wanted.length;
    const form = wanted.map(({ axis, size }) => `${axis}/${size}`).join();
    if (sliders.dataset.form !== form) {
      sliders.dataset.form = form;
      sliders.replaceChildren(...wanted.map(({ axis, size }) => {
        const range = element("input", { type: "range", min: 0, max: size - 1, step: 1, "aria-label": `Index of axis ${axis}`, disabled: saved && !known?.whole });
        range.addEventListener("input", () => moveTo(axis, range.valueAsNumber));
        return element("label", { class: "gw-field" }, `axis ${axis}`, range, element("output", { class: "gw-code" }));
      }));
    }
    wanted.forEach(({ at, size }, k) => {
      const [range, text] = sliders.children[k].querySelectorAll("input, output") as unknown as [HTMLInputElement, HTMLOutputElement];
      if (!range.matches(":active")) range.value = String(at);
      text.textContent = `${at} of ${size}`;
    });
  }

  function update(now: TensorFacts | undefined, reduced: boolean): void {
    facts = now;
    const known = facts && facts.note === undefined ? facts : undefined;
    cutInto(title, (title.title = facts?.name || "Tensor"));
    subtitle.textContent = known ? `${known.spec}${known.origin === "stepper" ? " · in the stepper" : ""}` : "";
    const outputs = facts?.outputs ?? [];
    output.hidden = !outputs.length;
    output.replaceChildren(...outputs.map((name, k) => element("option", { value: name }, `output ${k}`)));
    output.value = facts?.name ?? "";
    index.disabled = planes.disabled = transpose.disabled = tile.disabled = !known || saved;
    if (!index.matches(":focus") && problem.hidden) index.value = known?.index ?? "";
    const rank = known?.slice.length ?? 0;
    planes.hidden = rank < 3;
    if (known && rank > 2) {
      const pairs = known.slice.flatMap((_, i) => known.slice.slice(i + 1).map((__, k) => [i, i + 1 + k]));
      planes.replaceChildren(...pairs.map(([a, b]) => element("option", { value: `${a},${b}` }, `axes ${a} × ${b}`)));
      planes.value = [...known.plane].sort((a, b) => a - b).join();
    }
    transpose.hidden = rank < 2;
    tile.hidden = !known || known.shape.length < 3;
    tile.setAttribute("aria-pressed", String(tiled()));
    numbers.disabled = more.disabled = rank === 0;
    code.disabled = !known;
    code.title = known ? `Copy as code: ${known.code}` : "Copy as code";
    values.disabled = !known?.literal;
    const label = `Copy the values as np.array${values.disabled ? ": up to 200 values" : ""}`;
    values.title = label;
    values.setAttribute("aria-label", label);
    follow.hidden = model.get("graph_spec") === undefined; // beside a drawing there is a selection to follow
    part.hidden = !known?.complex;
    cells.hidden = !reduced;
    for (const run of updates) run();
    updateSliders(known);
  }

  return { update, judge };
}
