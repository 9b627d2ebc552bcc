// What would fit: the memory that a model takes at certain sizes, beside the memory of this machine.

import { element } from "../../core/dom";
import { bytesText, grouped } from "../../core/format";
import type { About } from "./page";
import { isAbort, problem } from "./problem";
import type { Fits } from "./served";

const PAUSE = 300; // ms without a key before other sizes are asked for

export async function fillMemory(host: HTMLElement, { served, path, words }: About, end: AbortSignal): Promise<() => void> {
  const first = await served.get<Fits>("fits", { path }, end);
  const machine = element("p", { class: "gw-file-lead" }, words("This machine has %1 of memory, of which %2 are free.", bytesText(first.machine.total), bytesText(first.machine.available)));
  const answer = element("div");
  const inputs = new Map(Object.entries(first.sizes).map(([size, where]) => {
    const input = element("input", { class: "gw-input gw-file-size", type: "number", min: 1, step: 1, placeholder: words("any"), title: where, "aria-label": size });
    return [size, { input, where }] as const;
  }));

  function show(told: Fits): void {
    const names = Object.keys(told.sizes);
    const verdict = (bytes: number, fits: boolean): HTMLElement =>
      element("td", { class: "gw-cell-number", "data-fits": String(fits) }, bytesText(bytes), element("span", { class: "gw-chip" }, fits ? words("fits") : words("too large")));
    const head = [
      ...names.map((name) => element("th", { scope: "col" }, name)),
      ...[words("to run"), words("to train")].map((text) => element("th", { scope: "col", class: "gw-cell-number" }, text)),
    ];
    const rows = told.rows.map((row) => element("tr", {}, ...names.map((name) => element("td", {}, grouped(row.sizes[name]))), verdict(row.run, row.runs), verdict(row.train, row.trains)));
    answer.replaceChildren(
      element("table", { class: "gw-table gw-fits", "aria-label": words("Memory") }, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows)),
      element("p", { class: "gw-table-note" }, told.counts));
  }

  async function ask(): Promise<void> {
    const sizes = Object.fromEntries([...inputs].flatMap(([size, { input }]) => (input.valueAsNumber >= 1 ? [[size, Math.floor(input.valueAsNumber)]] : [])));
    const all = Object.keys(sizes).length === inputs.size;
    try {
      show(Object.keys(sizes).length && all ? await served.get<Fits>("fits", { path, sizes: JSON.stringify(sizes) }, end) : first);
    } catch (error) {
      if (!isAbort(error)) answer.replaceChildren(problem(error, words));
    }
  }

  let typing: ReturnType<typeof setTimeout> | undefined;
  for (const { input } of inputs.values()) {
    input.addEventListener("input", () => {
      clearTimeout(typing);
      typing = setTimeout(() => void ask(), PAUSE);
    });
  }
  const sizes = [...inputs].map(([size, { input, where }]) => element("label", { class: "gw-field" }, size, input, element("span", { class: "gw-subtitle" }, where)));
  host.append(element("div", { class: "gw-about", tabindex: 0, role: "region", "aria-label": words("Memory") }, machine, element("div", { class: "gw-file-sizes" }, ...sizes), answer));
  show(first);
  return () => clearTimeout(typing);
}
