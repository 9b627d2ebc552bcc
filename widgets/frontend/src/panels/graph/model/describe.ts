// What is written on each item and how large it is. Sizes come from a table of letter widths rather than from the
// browser's fonts, so that the worker needs no canvas and the same graph is laid out the same on every machine.

import type { GraphModel } from "./model";
import { leaf } from "./names";
import { cardSize, mainRow, type CardFace } from "./card_face";
import { shortShape } from "./sizes";
import { BOLD, textWidth } from "./text";
import { resultsOf } from "./trace";
import type { AdapterSpec, GroupColumns } from "./wire";
import { counted } from "../../../core/format";

export type Shape = "op" | "card" | "result" | "variable" | "placeholder" | "constant" | "scope" | "gradient" | "gradients";

export interface Face {
  shape: Shape;
  title: string;
  /** Second line, or the right-hand part of a pill. */
  note: string;
  category: string;
  /** Whether it encloses others that can be shown: as a scope does, as some nodes do. */
  opens?: boolean;
  /** What is written on a card. */
  card?: CardFace;
  /** The adapter that it is, which can be switched. */
  adapter?: AdapterSpec;
}

export const TITLE_SIZE = 12;
export const NOTE_SIZE = 10.5;
/** Room for the mark of a node that opens. */
export const OPENER = 16;
/** Room for the switch of an adapter. */
export const SWITCH = 38;
const MAX_TEXT = 168;
const MAX_NOTE = 250; // of a block, which says what it does

export function describe(model: GraphModel, item: number): Face {
  if (model.isTwin(item)) return describeGradient(model, item);
  const node = model.nodeAt(item);
  if (node < 0) {
    const { label, size, kind, group } = model.scopes[item - model.n];
    const groups = model.spec.groups;
    const adapter = model.adapter(item);
    if (adapter && kind !== "card") return describeAdapter(adapter, size);
    if (kind === "card" && groups) return describeCard(groups, group);
    if (groups && group >= 0) return { shape: "scope", title: label, note: groups.notes[group] || counted(size, "node"), category: "scope", opens: true };
    return { shape: "scope", title: label, note: counted(size, "node"), category: "scope", opens: true };
  }
  const title = leaf(model.spec.names[node]);
  const kind = model.kindOf(node);
  const category = model.category(node);
  const [shape = "", ...more] = model.outputSpecs(node).map(shortShape);
  if (model.isOpened(item)) return { shape: "result", title: more.length ? "results" : "result", note: more.length ? "" : shape, category };
  if (kind !== "array") return { shape: kind, title, note: shape, category };
  const op = model.op(node);
  const opens = model.opens(item);
  const plain = title === op || (title.startsWith(op) && /^_\d+$/.test(title.slice(op.length)));
  return { shape: "op", title: plain ? op : title, note: plain ? "" : op, category, opens };
}

/** `LoRA`, what it is called, and whether it is off. */
function describeAdapter(adapter: AdapterSpec, size: number): Face {
  return { shape: "scope", title: adapter.method, note: `${adapter.name} · ${adapter.on ? counted(size, "node") : "off"}`, category: "adapter", opens: true, adapter };
}

/** In one line the title and all rows; a card without a title is called after the row that counts. */
function describeCard({ titles, rows, categories, notes }: GroupColumns, group: number): Face {
  const card = { title: titles[group], rows: rows[group], categories: categories[group], chip: notes[group] };
  const main = mainRow(card.categories);
  const title = card.title || card.rows[main];
  const others = card.rows.filter((row) => row !== title);
  return { shape: "card", title, note: [...others, card.chip].filter(Boolean).join(" · "), category: card.categories[main] ?? "scope", opens: true, card };
}

/** `∂ matmul`, how many ops it takes, and the shape of what arrives: the gradient of the result. */
function describeGradient(model: GraphModel, item: number): Face {
  const { label, size, of } = model.scopes[item - model.n];
  const shapes = new Set(resultsOf(model, of).map((tensor) => shortShape(model.spec.specs[model.specOf[tensor]])));
  const shape = shapes.size === 1 ? ` · ${[...shapes][0]}` : "";
  return { shape: model.nodeAt(of) < 0 ? "gradients" : "gradient", title: `∂ ${model.nodeAt(of) < 0 ? label : describe(model, of).title}`, note: counted(size, "op") + shape, category: "gradient" };
}

export function itemSize(face: Face): { width: number; height: number } {
  const title = Math.min(MAX_TEXT, textWidth(face.title, TITLE_SIZE));
  const note = face.note ? Math.min(MAX_TEXT, textWidth(face.note, NOTE_SIZE)) : 0;
  switch (face.shape) {
    case "op":
      return { width: Math.max(76, Math.ceil(Math.max(title, note)) + 30) + (face.opens ? OPENER : 0), height: face.note ? 42 : 30 };
    case "gradient":
      return { width: Math.max(96, Math.ceil(Math.max(title, note)) + 48), height: 38 };
    case "card":
      return cardSize(face.card!);
    case "gradients":
    case "scope":
      return { width: Math.max(120, Math.ceil(Math.max(BOLD * title, Math.min(MAX_NOTE, textWidth(face.note, NOTE_SIZE)))) + 54 + (face.adapter ? SWITCH : 0)), height: 46 };
    default:
      return { width: Math.max(48, Math.ceil(title + note) + (face.note ? 38 : 28)), height: 28 };
  }
}
