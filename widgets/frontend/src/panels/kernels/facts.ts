// What a launch takes: on a GPU, and line by line.

import { element } from "../../core/dom";
import { bytesText, compact, counted, grouped } from "../../core/format";
import type { Cost, Launch } from "./store";

export function timeText(seconds: number): string {
  return seconds >= 1e-3 ? `${compact(seconds * 1e3, 3)} ms` : seconds >= 1e-6 ? `${compact(seconds * 1e6, 3)} µs` : `${compact(seconds * 1e9, 3)} ns`;
}

/** Figures of a GPU: what the compiler gave it, how full it is, and the least time. */
export function costTable(cost: Cost): HTMLElement {
  const share = (part: number, whole: number): HTMLElement => {
    const bar = element("span", { class: "gw-kernels-bar", "aria-hidden": "true" }, element("span"));
    (bar.firstElementChild as HTMLElement).style.width = `${Math.min(100, (100 * part) / Math.max(whole, 1e-300))}%`;
    return bar;
  };
  const least = Math.max(cost.memory, cost.compute);
  const rows: [string, string, HTMLElement?][] = [
    ["Registers", `${cost.registers} a thread`, share(cost.registers, 255)],
    ["Spilled", cost.spilled ? `${grouped(cost.spilled)} B a thread` : "nothing"],
    ["Shared memory", bytesText(cost.shared) + " a block"],
    ["Occupancy", `${Math.round(100 * cost.occupancy)} %: ${counted(cost.blocks, "block")} of ${cost.threads} threads, no more for ${cost.limit}`, share(cost.occupancy, 1)],
    ["Memory", `${bytesText(cost.bytes)}, ${timeText(cost.memory)}`, share(cost.memory, least)],
    ["Arithmetic", cost.flops === null ? "not known" : `${compact(cost.flops)} FLOP, ${timeText(cost.compute)}`, share(cost.compute, least)],
    ["At the roof", `${timeText(least)}, bound by ${cost.bound}`],
  ];
  return element("table", { class: "gw-kernels-facts", "aria-label": `On ${cost.chip}` }, element("tbody", {}, ...rows.map(([label, text, bar]) =>
    element("tr", { "data-wrong": label === "Spilled" && cost.spilled > 0 }, element("th", { scope: "row" }, label), element("td", {}, text), element("td", {}, ...(bar ? [bar] : []))))));
}

/** What each line does to each array, all programs together. */
export function touchTable(launch: Launch): HTMLElement {
  const titles = ["Line", "Array", "", "Accesses", "Masked off", "Bytes", "Sectors"];
  const cells = launch.touches.map((touch) => [
    String(touch.line), launch.operands[touch.argument]?.parameter ?? "a pointer in memory", touch.how, grouped(touch.accesses), `${Math.round(100 * touch.masked)} %`,
    touch.bytes > touch.distinct ? `${bytesText(touch.distinct)}, asked for ${compact(touch.bytes / touch.distinct, 2)}×` : bytesText(touch.distinct), `${compact(touch.sectors, 2)}×`,
  ]);
  return element(
    "table",
    { class: "gw-kernels-facts", "aria-label": "Accesses" },
    element("thead", {}, element("tr", {}, ...titles.map((title) => element("th", { scope: "col", title: title === "Sectors" ? "Of 32 bytes, as multiples of the fewest, if 32 neighbours of a tile ask at once" : undefined }, title)))),
    element("tbody", {}, ...cells.map((row) => element("tr", {}, ...row.map((text) => element("td", {}, text))))),
  );
}
