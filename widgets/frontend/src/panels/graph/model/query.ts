// What a reader types to find nodes and scopes, taken apart. The grammar:
//
//   query = step { "->" step }         a path: each node reads the one before it
//   step  = term { term }              all of them fit
//   term  = word                       part of a name, a title or an op; with * or ? the whole of one, in a path an op
//         | "/" pattern "/" ["i"]      a regular expression over names and ops
//         | field ":" word             one of FIELDS
//         | "[" size { "," size } "]"  the shape of a result: sizes as written, * for any one, ... for any number
//         | name comparison value      an attribute: stride=2, axis!=-1, eps<1e-5

import { partsOf } from "./sizes";

/** What can stand before a colon, and what it means. */
export const FIELDS = { op: "an op", layer: "a scope, a block or a card", dtype: "the dtype of a result" } as const;
type Field = keyof typeof FIELDS;
const COMPARISONS = ["!=", "<=", ">=", "=", "<", ">"] as const;
export type Comparison = (typeof COMPARISONS)[number];

export type Term =
  | { kind: "word"; text: string }
  | { kind: "pattern"; pattern: RegExp }
  | { kind: Field; text: string }
  | { kind: "shape"; sizes: string[] }
  | { kind: "attribute"; name: string; comparison: Comparison; value: string };

/** Shown where nothing has been typed yet. */
export const EXAMPLES: [text: string, meaning: string][] = [
  ["attention", "part of a name, a title or an op"],
  ["op:conv*", "an op; * stands for any letters"],
  ["matmul -> add -> relu", "a path; * is any node"],
  ["[B, *, 64]", "the shape of a result"],
  ["stride=2", "an attribute, also != < >"],
  ["dtype:bf16", "the dtype of a result"],
  ["layer:block", "scopes alone"],
  ["/conv\\d+$/", "a regular expression"],
];

/** Why something cannot be looked for, in a few words. */
export class Unreadable extends Error {}

/** The steps of a query, each the terms that a node of it fits. */
export function parse(query: string): Term[][] {
  const steps: Term[][] = [[]];
  for (const token of tokens(query)) {
    if (token !== "->") steps[steps.length - 1].push(termOf(token));
    else if (steps[steps.length - 1].length) steps.push([]);
    else throw new Unreadable("an arrow begins at a node: conv* -> relu");
  }
  if (steps.length > 1 && !steps[steps.length - 1].length) throw new Unreadable("an arrow leads to a node; * is any");
  return steps;
}

/** Arrows, patterns and shapes as wholes, and what stands between spaces; a space after a field or around `=` is let pass. */
function tokens(query: string): string[] {
  const text = query.replace(/(^|\s)(op|layer|dtype):\s+/gi, "$1$2:").replace(/\s*(!=|<=|>=|=)\s*/g, "$1").replace(/[→⟶]/g, "->");
  return text.match(/->|\/(?:\\.|[^/\\])+\/i?(?=\s|$)|\[[^\]]*\]?|\w+(?:!=|<=|>=|=|<|>)\([^)]*\)?|(?:(?!->)\S)+/g) ?? [];
}

function termOf(token: string): Term {
  const pattern = /^\/(.+)\/(i?)$/.exec(token);
  if (pattern) {
    try {
      return { kind: "pattern", pattern: new RegExp(pattern[1], pattern[2]) };
    } catch {
      throw new Unreadable("not a regular expression");
    }
  }
  if (token.startsWith("[")) {
    if (!token.endsWith("]")) throw new Unreadable("end the shape with ]");
    return { kind: "shape", sizes: token.slice(1, -1).trim() ? partsOf(token.slice(1, -1)) : [] };
  }
  const field = /^(\w+):(.*)$/.exec(token);
  if (field && field[1].toLowerCase() in FIELDS) {
    if (!field[2]) throw new Unreadable(`${field[1]}: what? ${FIELDS[field[1].toLowerCase() as Field]}`);
    return { kind: field[1].toLowerCase() as Field, text: field[2].toLowerCase() };
  }
  const attribute = /^([A-Za-z_]\w*)(!=|<=|>=|=|<|>)(.*)$/.exec(token);
  if (attribute) {
    const [, name, comparison, value] = attribute;
    if (!value) throw new Unreadable(`${name} ${comparison} what?`);
    return { kind: "attribute", name, comparison: comparison as Comparison, value: value.replace(/['"\s]/g, "") };
  }
  return { kind: "word", text: token.toLowerCase() };
}

/** The attributes in a call such as `conv2d(stride=(2, 2), padding='same')`, as they are written. */
export function attributesOf(call: string): Map<string, string> {
  const open = call.indexOf("(");
  const inner = open < 0 ? "" : call.slice(open + 1, call.lastIndexOf(")"));
  const found = new Map<string, string>();
  let [start, depth, quote] = [0, 0, ""];
  const end = (at: number): void => {
    const [, name, value] = /^\s*(\w+)=(.*)$/s.exec(inner.slice(start, at)) ?? [];
    if (name) found.set(name, value);
    start = at + 1;
  };
  for (let at = 0; at < inner.length; at++) {
    const letter = inner[at];
    if (quote) {
      if (letter === "\\") at++;
      else if (letter === quote) quote = "";
    } else if (letter === "'" || letter === '"') quote = letter;
    else if ("([{<".includes(letter)) depth++;
    else if (")]}>".includes(letter)) depth--;
    else if (letter === "," && depth <= 0) end(at);
  }
  end(inner.length);
  return found;
}

/** Whether a value as it is written compares so with what was typed. `2` also is `(2, 2)`, as sizes of windows often are. */
export function compares(written: string, comparison: Comparison, value: string): boolean {
  const plain = written.replace(/['"\s]/g, "");
  const parts = /^\((.*)\)$/.test(plain) && !value.startsWith("(") ? plain.slice(1, -1).split(",").filter(Boolean) : [plain];
  const same = (part: string): boolean => wild(value).test(part.toLowerCase()) || (value !== "" && Number(part) === Number(value));
  if (comparison === "=") return parts.length > 0 && parts.every(same);
  if (comparison === "!=") return !parts.length || !parts.every(same);
  const [bound, numbers] = [Number(value), parts.map(Number)];
  const holds = { "<": (a: number) => a < bound, "<=": (a: number) => a <= bound, ">": (a: number) => a > bound, ">=": (a: number) => a >= bound }[comparison];
  return numbers.length > 0 && numbers.every(holds);
}

/** A text with wildcards as the expression of a whole: `*` for any letters, `?` for one. */
export function wild(text: string): RegExp {
  let known = made.get(text);
  if (!known) {
    if (made.size > 200) made.clear();
    made.set(text, (known = new RegExp(`^${text.replace(/[.+^${}()|[\]\\]/g, "\\$&").replace(/\*/g, ".*").replace(/\?/g, ".")}$`, "is")));
  }
  return known;
}
const made = new Map<string, RegExp>();

export const isWild = (text: string): boolean => /[*?]/.test(text);

/** Whether sizes fit those that were typed: `*` is any one, `...` any number of them, wildcards any letters. */
export function fitsShape(wanted: readonly string[], sizes: readonly string[], w = 0, s = 0): boolean {
  for (; w < wanted.length; w++, s++) {
    if (wanted[w] === "...") {
      for (let skip = s; skip <= sizes.length; skip++) if (fitsShape(wanted, sizes, w + 1, skip)) return true;
      return false;
    }
    if (s >= sizes.length || !wild(wanted[w]).test(sizes[s])) return false;
  }
  return s === sizes.length;
}
