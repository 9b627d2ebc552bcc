// The text of a kernel: what each line does to memory in the gutter, and behind it what it has set by now, as a debugger shows it.

import { element, textButton } from "../../core/dom";
import type { KernelStore, Source } from "./store";

export interface Code {
  root: HTMLElement;
  show(store: KernelStore, at: number): void;
}

const NODES = 6;
const SIGNS: Record<string, string> = { loads: "→", stores: "←", changes: "↔" };
const WORDS: Record<string, string> = { loads: "reads memory", stores: "writes memory", changes: "changes memory" };

/** `visit` is told at which line of the program one wants to stand, `choose` which node one wants to see. */
export function code(visit: (line: number) => void, choose: (node: string) => void): Code {
  const root = element("div", { class: "gw-kernels-code gw-code", tabindex: 0, role: "region", "aria-label": "Source" });
  let rows = new Map<string, HTMLElement>();
  let shown: unknown;
  let lit: HTMLElement | undefined;

  function build(store: KernelStore): void {
    rows = new Map();
    const sources = store.program?.sources.length ? store.program.sources : store.launch ? [store.launch.source] : [];
    const nodes = store.launch?.nodes ?? [];
    const names = nodes.slice(0, NODES).flatMap((node, k) => [k ? ", " : "computes ", textButton("gw-text-link", node, () => choose(node), { title: `Select ${node}` })]);
    const more = nodes.length > NODES ? ` and ${nodes.length - NODES} more` : "";
    root.replaceChildren(...sources.flatMap((source, k) => [head(source, k ? [] : [...names, more]), ...source.lines.map((text, n) => row(store, k, source.first + n, text))]));
  }

  function row(store: KernelStore, source: number, line: number, text: string): HTMLElement {
    const how = new Set(store.launch?.touches.filter((touch) => touch.line === line).map((touch) => touch.how));
    const wrong = store.launch?.findings.find((finding) => finding.line === line);
    const marks = [...how].map((word) => element("span", { title: WORDS[word] }, SIGNS[word]));
    const comment = /^\s*(#|""")/.test(text);
    const made = element(
      "div",
      { class: "gw-kernels-line", "data-wrong": Boolean(wrong), title: wrong?.text },
      textButton("gw-kernels-number", String(line), () => visit(next(store, source, line)), { "aria-label": `Go to line ${line}`, tabindex: -1 }),
      element("span", { class: "gw-kernels-marks" }, ...marks),
      element("span", { class: comment ? "gw-kernels-comment" : "" }, text),
      element("span", { class: "gw-kernels-set" }),
    );
    rows.set(`${source}:${line}`, made);
    return made;
  }

  /** The next time that a line runs from where the program stands, else the first. */
  function next(store: KernelStore, source: number, line: number): number {
    const all = (store.program?.lines ?? []).flatMap((ran, k) => (ran.source === source && ran.line === line ? [k] : []));
    return all.find((k) => k > at) ?? all[0] ?? at;
  }
  let at = 0;

  function show(store: KernelStore, line: number): void {
    at = line;
    if (shown !== (store.program ?? store.launch)) {
      shown = store.program ?? store.launch;
      build(store);
    }
    for (const made of rows.values()) made.lastElementChild!.textContent = "";
    const lines = store.program?.lines.slice(0, line + 1) ?? [];
    for (const ran of lines) {
      const made = rows.get(`${ran.source}:${ran.line}`);
      if (!made || !ran.changed.length || ran === store.program?.lines[0]) continue;
      made.lastElementChild!.textContent = ran.changed.map(({ name, text }) => `${name} = ${text}`).join("   ");
    }
    const now = lines.at(-1);
    const current = now && rows.get(`${now.source}:${now.line}`);
    lit?.removeAttribute("aria-current");
    lit = current;
    lit?.setAttribute("aria-current", "step");
    if (lit && (lit.offsetTop < root.scrollTop + 20 || lit.offsetTop > root.scrollTop + root.clientHeight - 40)) root.scrollTop = lit.offsetTop - root.clientHeight / 3;
  }
  return { root, show };
}

function head({ name, file }: Source, nodes: (Node | string)[]): HTMLElement {
  return element("div", { class: "gw-kernels-file" }, element("strong", {}, name), element("span", {}, file.startsWith("<") ? "generated" : file), element("span", {}, ...nodes));
}
