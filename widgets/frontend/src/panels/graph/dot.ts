// The drawing in the language of Graphviz: boxes as nodes, open scopes as clusters, one line per pair of boxes.

import { describe } from "./describe";
import type { GraphModel } from "./model";
import type { Scene } from "./scene";
import { drawnFor } from "./marks";
import { shortShape } from "./sizes";

/** A quoted string of the language: backslashes and quotes are escaped, so that no name can say anything else. */
export function quote(text: string): string {
  return `"${text.replace(/[\\"]/g, "\\$&").replace(/\r\n?|\n/g, "\\n").replace(/\0/g, "\ufffd")}"`;
}

export function dotOf(model: GraphModel, scene: Scene): string {
  const lines = [`digraph ${quote(model.spec.name)} {`, "  node [shape=box, fontsize=12]", "  edge [fontsize=10]"];
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
      lines.push(`${"  ".repeat(--depth)}}`);
      continue;
    }
    const pad = "  ".repeat(depth);
    if (frames.has(next)) {
      lines.push(`${pad}subgraph ${quote(`cluster_${next}`)} {`, `${pad}  label=${quote(describe(model, next).title)}`);
      pending.push("}", ...[...(inside.get(next - model.n) ?? [])].reverse());
      depth++;
    } else lines.push(`${pad}${node(model, next)}`);
  }
  lines.push(...edges(model, drawn));
  return `${lines.join("\n")}\n}\n`;
}

function node(model: GraphModel, item: number): string {
  const { title, note, shape } = describe(model, item);
  const style = shape === "variable" ? ", style=rounded" : model.isScope(item) ? ", shape=box3d" : "";
  return `n${item} [label=${quote(note ? `${title}\n${note}` : title)}${style}]`;
}

function edges(model: GraphModel, drawn: Set<number>): string[] {
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
    const label = tensors.size > 1 ? `${tensors.size} tensors` : shortShape(model.spec.specs[model.specOf[tensor]]);
    return `  n${from} -> n${to} [label=${quote(label)}]`;
  });
}
