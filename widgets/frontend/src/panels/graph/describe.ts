// What is written on each item and how large it is. Sizes come from a table of letter widths rather than from the
// browser's fonts, so that the worker needs no canvas and the same graph is laid out the same on every machine.

import { leaf, type GraphModel } from "./model";
import { counted } from "../../core/format";

export type Shape = "op" | "variable" | "placeholder" | "constant" | "scope" | "gradient" | "gradients";

export interface Face {
  shape: Shape;
  title: string;
  /** Second line, or the right-hand part of a pill. */
  note: string;
  category: string;
}

export const TITLE_SIZE = 12;
export const NOTE_SIZE = 10.5;
const MAX_TEXT = 168;

/** `f32[B, 64]` as `B×64`; a scalar is left as its dtype. */
export function shortShape(spec: string): string {
  const open = spec.indexOf("[");
  const inner = open < 0 ? "" : spec.slice(open + 1, spec.lastIndexOf("]"));
  return inner ? inner.split(",").map((part) => part.trim()).join("×") : open < 0 ? spec : spec.slice(0, open);
}

export function describe(model: GraphModel, item: number): Face {
  if (model.isTwin(item)) return describeGradient(model, item);
  if (model.isScope(item)) {
    const { label, size } = model.scopes[item - model.n];
    return { shape: "scope", title: label, note: counted(size, "node"), category: "scope" };
  }
  const title = leaf(model.spec.names[item]);
  const kind = model.kindOf(item);
  const category = model.category(item);
  if (kind !== "array") return { shape: kind, title, note: shortShape(model.outputSpecs(item)[0] ?? ""), category };
  const op = model.op(item);
  const plain = title === op || (title.startsWith(op) && /^_\d+$/.test(title.slice(op.length)));
  return { shape: "op", title: plain ? op : title, note: plain ? "" : op, category };
}

/** `∂ matmul`, how many ops it takes, and the shape of what arrives: the gradient of the result. */
function describeGradient(model: GraphModel, item: number): Face {
  const { label, size, of } = model.scopes[item - model.n];
  const shapes = new Set(model.resultsOf(of).map((tensor) => shortShape(model.spec.specs[model.specOf[tensor]])));
  const shape = shapes.size === 1 ? ` · ${[...shapes][0]}` : "";
  return { shape: model.isScope(of) ? "gradients" : "gradient", title: `∂ ${model.isScope(of) ? label : describe(model, of).title}`, note: counted(size, "op") + shape, category: "gradient" };
}

/** Approximate width of text in a system sans-serif at this size; wide ones, such as DejaVu, are allowed for. */
export function textWidth(text: string, size: number): number {
  let em = 0;
  for (const letter of text) {
    if ("iljtfr.,:;|!'`()[]{}/\\ ".includes(letter)) em += 0.34;
    else if ("mwMW@%".includes(letter)) em += 0.88;
    else if (letter >= "A" && letter <= "Z") em += 0.68;
    else if (letter > "\u2e80") em += 1;
    else em += 0.575;
  }
  return 1.06 * em * size;
}

export function itemSize(face: Face): { width: number; height: number } {
  const title = Math.min(MAX_TEXT, textWidth(face.title, TITLE_SIZE));
  const note = face.note ? Math.min(MAX_TEXT, textWidth(face.note, NOTE_SIZE)) : 0;
  switch (face.shape) {
    case "op":
      return { width: Math.max(76, Math.ceil(Math.max(title, note)) + 30), height: face.note ? 42 : 30 };
    case "gradient":
      return { width: Math.max(96, Math.ceil(Math.max(title, note)) + 48), height: 38 };
    case "gradients":
    case "scope":
      return { width: Math.max(120, Math.ceil(Math.max(title, note)) + 54), height: 46 };
    default:
      return { width: Math.max(48, Math.ceil(title + note) + (face.note ? 38 : 28)), height: 28 };
  }
}
