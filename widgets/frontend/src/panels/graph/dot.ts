// The drawing in languages that other programs lay out, Graphviz's and Mermaid's: boxes as nodes, open scopes as clusters, one
// line per pair of boxes.

import { describe, type Face, type Shape } from "./model/describe";
import type { GraphModel } from "./model/model";
import type { Scene } from "./layout/scene";
import { drawnFor } from "./picture/marks";
import { shortShape } from "./model/sizes";

/** How a language says it. Whatever stands in names, they are labels and never markup. */
interface Language {
  begin(name: string): string[];
  open(item: number, title: string): string[];
  close: string;
  node(item: number, face: Face): string;
  edge(from: number, to: number, label: string): string;
  end: string[];
}

/** A quoted string of Graphviz: backslashes and quotes are escaped. */
export function quote(text: string): string {
  return `"${text.replace(/[\\"]/g, "\\$&").replace(/\r\n?|\n/g, "\\n").replace(/\0/g, "\ufffd")}"`;
}

/** Boxes that stand for others. */
const HOLDS = new Set<Shape>(["scope", "card", "gradient", "gradients"]);

const DOT: Language = {
  begin: (name) => [`digraph ${quote(name)} {`, "  node [shape=box, fontsize=12]", "  edge [fontsize=10]"],
  open: (item, title) => [`subgraph ${quote(`cluster_${item}`)} {`, `  label=${quote(title)}`],
  close: "}",
  node: (item, { title, note, shape }) => {
    const style = shape === "variable" ? ", style=rounded" : HOLDS.has(shape) ? ", shape=box3d" : "";
    return `n${item} [label=${quote(note ? `${title}\n${note}` : title)}${style}]`;
  },
  edge: (from, to, label) => `n${from} -> n${to} [label=${quote(label)}]`,
  end: ["}"],
};

/** A quoted string of Mermaid, which reads entities as `#name;` and takes nothing else for markup then. */
export function mermaidQuote(text: string): string {
  return `"${text.replace(/[^\p{L}\p{N} _.,:;()[\]{}/=+*×·∂→-]/gu, (letter) => (letter === "\n" ? "<br/>" : `#${letter.codePointAt(0)};`)).replace(/(?<!#\d+);/g, "#59;")}"`;
}

const MERMAID: Language = {
  begin: () => ["flowchart TB"],
  open: (item, title) => [`subgraph s${item}[${mermaidQuote(title)}]`],
  close: "end",
  node: (item, { title, note, shape }) => {
    const label = mermaidQuote(note ? `${title}\n${note}` : title);
    return shape === "variable" || shape === "placeholder" ? `n${item}([${label}])` : HOLDS.has(shape) ? `n${item}[[${label}]]` : `n${item}[${label}]`;
  },
  edge: (from, to, label) => `n${from} -->|${mermaidQuote(label)}| n${to}`,
  end: [],
};

export const dotOf = (model: GraphModel, scene: Scene): string => written(model, scene, DOT);
export const mermaidOf = (model: GraphModel, scene: Scene): string => written(model, scene, MERMAID);

function written(model: GraphModel, scene: Scene, language: Language): string {
  const lines = language.begin(model.spec.name);
  const frames = new Set(scene.items.subarray(0, scene.frameCount));
  const drawn = new Set(scene.items);
  const inside = new Map<number, number[]>(); // open scope -> what stands in it
  for (const item of scene.items) {
    const scope = item < model.n ? model.scopeOf[item] : model.scopes[item - model.n].parent;
    const list = inside.get(scope);
    if (list) list.push(item);
    else inside.set(scope, [item]);
  }
  const pending: (number | string)[] = [...(inside.get(0) ?? [])].reverse();
  for (let depth = 1, next = pending.pop(); next !== undefined; next = pending.pop()) {
    if (typeof next === "string") {
      lines.push(`${"  ".repeat(--depth)}${next}`);
      continue;
    }
    const pad = "  ".repeat(depth);
    if (frames.has(next)) {
      lines.push(...language.open(next, describe(model, next).title).map((line) => pad + line));
      pending.push(language.close, ...[...(inside.get(next - model.n) ?? [])].reverse());
      depth++;
    } else lines.push(`${pad}${language.node(next, describe(model, next))}`);
  }
  for (const { from, to, label } of edges(model, drawn)) lines.push(`  ${language.edge(from, to, label)}`);
  return `${[...lines, ...language.end].join("\n")}\n`;
}

function edges(model: GraphModel, drawn: Set<number>): { from: number; to: number; label: string }[] {
  const isDrawn = (item: number): boolean => drawn.has(item);
  const found = new Map<string, { from: number; to: number; tensors: Set<number> }>();
  for (let e = 0; e < model.edgeTensor.length; e++) {
    const tensor = model.edgeTensor[e];
    const from = drawnFor(model, isDrawn, model.nodeOf[tensor]);
    const to = drawnFor(model, isDrawn, model.edgeTarget[e]);
    if (from < 0 || to < 0 || from === to) continue;
    const key = `${from} ${to}`;
    if (!found.has(key)) found.set(key, { from, to, tensors: new Set() });
    found.get(key)!.tensors.add(tensor);
  }
  return [...found.values()].map(({ from, to, tensors }) => {
    const [tensor] = tensors;
    return { from, to, label: tensors.size > 1 ? `${tensors.size} tensors` : shortShape(model.spec.specs[model.specOf[tensor]]) };
  });
}
