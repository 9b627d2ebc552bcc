// Finds nodes and scopes by what a reader types: part of a name, an op with `op:`, or a regular expression.

import type { GraphModel } from "./model";
import { leaf } from "./names";

export interface Found {
  /** Best first, then in the order of creation. */
  items: number[];
  /** Why nothing could be looked for, "" otherwise. */
  problem: string;
}

const opOf = (model: GraphModel, item: number): string => (model.nodeAt(item) < 0 ? "" : model.op(model.nodeAt(item)));

export function find(model: GraphModel, query: string): Found {
  const text = query.trim();
  if (!text) return { items: [], problem: "" };
  const op = /^op:\s*(.*)$/i.exec(text);
  if (op) return { items: byOp(model, op[1].toLowerCase()), problem: "" };
  const pattern = /^\/(.+?)\/(i?)$/.exec(text) ?? (/^\/(.+)$/.exec(text) && undefined);
  if (pattern === undefined) return { items: [], problem: "end the pattern with a slash" };
  if (pattern === null) return { items: byName(model, text.toLowerCase()), problem: "" };
  try {
    const expression = new RegExp(pattern[1], pattern[2]);
    return { items: allItems(model).filter((item) => expression.test(nameOf(model, item)) || expression.test(opOf(model, item))), problem: "" };
  } catch {
    return { items: [], problem: "not a regular expression" };
  }
}

/** Scopes and nodes, opened or not, in the order of creation. */
function allItems(model: GraphModel): number[] {
  const items: number[] = [];
  const begins = new Map<number, number[]>();
  for (let s = 1; s < model.scopes.length; s++) {
    const { first, frame } = model.scopes[s];
    if (frame >= 0) continue; // found as its node
    begins.set(first, [...(begins.get(first) ?? []), model.n + s]);
  }
  for (let node = 0; node < model.n; node++) items.push(...(begins.get(node) ?? []), model.frameOf(node));
  return items;
}

function nameOf(model: GraphModel, item: number): string {
  return model.itemName(item).replace(/\/$/, "");
}

function byOp(model: GraphModel, op: string): number[] {
  const nodes = allItems(model).filter((item) => model.nodeAt(item) >= 0);
  const lower = nodes.map((item) => opOf(model, item).toLowerCase());
  const exact = nodes.filter((_, k) => lower[k] === op || leaf(lower[k]) === op);
  return exact.length ? exact : nodes.filter((_, k) => op !== "" && lower[k].includes(op));
}

function byName(model: GraphModel, text: string): number[] {
  const ranked: number[][] = [[], [], [], [], []];
  for (const item of allItems(model)) {
    const name = nameOf(model, item).toLowerCase();
    const last = leaf(name);
    const rank =
      last === text || name === text ? 0
      : last.startsWith(text) ? 1
      : last.includes(text) ? 2
      : name.includes(text) ? 3
      : opOf(model, item).toLowerCase().includes(text) ? 4
      : -1;
    if (rank >= 0) ranked[rank].push(item);
  }
  return ranked.flat();
}
