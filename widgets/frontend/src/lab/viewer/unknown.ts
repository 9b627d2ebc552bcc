// What of a file cannot run here: each operator, why, and where it stands.

import { element, textButton } from "../../core/dom";
import { grouped } from "../../core/format";
import type { About } from "./page";
import type { Inspected } from "./served";

const MOST = 20; // nodes named for an operator

/** `show` brings a node into view in the drawing. */
export function fillUnknown(host: HTMLElement, { words }: About, { info }: Inspected, show: (node: string) => void): () => void {
  const rows = Object.entries(info.unknown_ops).map(([op, { why, nodes }]) => {
    const named = nodes.slice(0, MOST).map((node) => textButton("gw-text-link", node || "?", () => show(node)));
    const more = nodes.length > MOST ? [words("and %1 more", grouped(nodes.length - MOST))] : [];
    return element("tr", {},
      element("td", {}, element("strong", {}, op)), element("td", { class: "gw-cell-number" }, grouped(info.ops[op] ?? nodes.length)),
      element("td", { class: "gw-file-wide" }, why), element("td", { class: "gw-file-wide" }, ...named, ...more));
  });
  const heads = [words("operator"), words("nodes"), words("why"), words("where")].map((text) => element("th", { scope: "col" }, text));
  host.append(element("div", { class: "gw-about", tabindex: 0, role: "region", "aria-label": words("Not supported") },
    element("p", { class: "gw-file-lead" }, words("The file is drawn and its tensors are shown, but a graph of it would lack these.")),
    element("table", { class: "gw-table", "aria-label": words("Not supported") }, element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...rows))));
  return () => undefined;
}
