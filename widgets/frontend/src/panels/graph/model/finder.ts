// Finds nodes, scopes and paths by what a reader types (see query.ts), fast enough for every key in a graph of 50,000 nodes.

import { describe } from "./describe";
import type { GraphModel } from "./model";
import { leaf } from "./names";
import { attributesOf, compares, fitsShape, isWild, parse, Unreadable, wild, type Term } from "./query";
import { dtypeOf, sizesOf } from "./sizes";
import { outputsOf } from "./trace";
import type { GraphSpec } from "./wire";

export interface Found {
  /** Best first, then in the order of creation; of a path the node at which it begins. */
  items: number[];
  /** The nodes of found paths, in their order: of those at the head of `items`. */
  paths?: number[][];
  /** All nodes on found paths, also on those that are not listed. */
  lit?: number[];
  /** Why nothing could be looked for, "" otherwise. */
  problem: string;
}

export function find(model: GraphModel, query: string): Found {
  const text = typed(query.trim());
  if (!text) return { items: [], problem: "" };
  const index = indexOf(model);
  try {
    const steps = parse(query.trim().replaceAll("×", "x").replaceAll("→", "->"));
    if (steps.length > 1) {
      const found = paths(model, index, steps);
      // `conv 3x3, 64 -> 128` is a title, and `conv* -> relu` may be rows of a card.
      const stands = inRows(steps);
      const titled = [...index.cards].flatMap(([item, rows]) => (index.title(item).includes(text) || stands(rows) ? [item] : []));
      return { ...found, items: [...titled, ...found.items], paths: [...titled.map((item) => [item]), ...found.paths] };
    }
    const [[term]] = steps;
    if (steps[0].length === 1 && term.kind === "word" && !isWild(text)) return { items: byWord(index, text), problem: unfinished(index, text) };
    const tests = steps[0].map((part) => testOf(model, index, part, false));
    return { items: index.items.filter((item) => tests.every((test) => test(item))), problem: "" };
  } catch (error) {
    if (!(error instanceof Unreadable)) throw error;
    return { items: [], problem: error.message };
  }
}

/** Makes ready what is looked up, so that the first key is as fast as the others: 0.2 s for 50,000 nodes. */
export function prepare(model: GraphModel): void {
  void indexOf(model).cards;
}

/** A pattern without its second slash is a name with a slash, if there is one. */
function unfinished(index: Index, text: string): string {
  return text.startsWith("/") && !byWord(index, text).length ? "end the pattern with a slash" : "";
}

// What is looked up.

class Index {
  /** Scopes and nodes, opened or not, in the order of creation. */
  readonly items: number[] = [];
  readonly nodes: number[];
  private readonly names: string[];
  private readonly leaves: string[];
  private readonly ops: string[];
  private readonly rows = new Map<number, string[]>();
  private titles: string[] | undefined;

  constructor(private readonly model: GraphModel) {
    const begins = new Map<number, number[]>();
    for (let s = 1; s < model.scopes.length; s++) {
      const { first, frame } = model.scopes[s];
      if (frame < 0) begins.set(first, [...(begins.get(first) ?? []), model.n + s]); // frames are found as their nodes
    }
    this.nodes = Array.from({ length: model.n }, (_, node) => node);
    for (const node of this.nodes) this.items.push(...(begins.get(node) ?? []), model.frameOf(node));
    this.names = Array.from({ length: model.n + model.scopes.length }, (_, item) => typed(model.itemName(item).replace(/\/$/, "")));
    this.leaves = this.names.map(leaf);
    this.ops = model.spec.ops.map((op) => op.toLowerCase());
  }

  name = (item: number): string => this.names[item];
  leaf = (item: number): string => this.leaves[item];

  /** What is drawn on a scope. */
  title(item: number): string {
    return (this.titles ??= this.read())[item - this.model.n];
  }

  /** Cards, each with its rows. */
  get cards(): ReadonlyMap<number, string[]> {
    this.titles ??= this.read();
    return this.rows;
  }

  private read(): string[] {
    const { model, rows } = this;
    return model.scopes.map(({ frame }, s) => {
      if (!s || frame >= 0) return "";
      const { title, note, card } = describe(model, model.n + s);
      if (card) rows.set(model.n + s, card.rows.map(typed));
      return typed(`${title}\n${note}`);
    });
  }

  /** The op of a node, "" of a scope. */
  op(item: number): string {
    const node = this.model.nodeAt(item);
    return node < 0 ? "" : this.ops[this.model.call[node]];
  }

  /** Whether the op of an item has a text in its name. */
  containing(text: string): (item: number) => boolean {
    const { model } = this;
    const fits = this.ops.map((op) => op.includes(text));
    return (item) => {
      const node = model.nodeAt(item);
      return node >= 0 && fits[model.call[node]];
    };
  }

  /** Which calls have an op of this name, or else a part of it in theirs. */
  readonly callsOf = (text: string): boolean[] => {
    if (isWild(text)) return this.ops.map((op) => wild(text).test(op) || wild(text).test(leaf(op)));
    const exact = this.ops.map((op) => op === text || leaf(op) === text);
    return exact.includes(true) ? exact : this.ops.map((op) => op.includes(text));
  };
}

/** Words as they can be typed: `3x3` for `3×3`. */
function typed(text: string): string {
  return text.toLowerCase().replace(/×/g, "x").replace(/→/g, "->");
}

/** A test whether steps of a word each fit rows that stand one below the other. */
function inRows(steps: readonly Term[][]): (rows: readonly string[]) => boolean {
  const words = steps.flatMap(([term, ...more]) => (term.kind === "word" && !more.length ? [typed(term.text)] : []));
  if (words.length < steps.length) return () => false;
  return (rows) => rows.some((_, from) => from + words.length <= rows.length && words.every((word, k) => matches(word, rows[from + k])));
}

const indices = new WeakMap<GraphSpec, Index>();

/** A model that opens a node takes over another spec, and so another index. */
function indexOf(model: GraphModel): Index {
  let index = indices.get(model.spec);
  if (!index) indices.set(model.spec, (index = new Index(model)));
  return index;
}

function byWord(index: Index, text: string): number[] {
  const ranked: number[][] = [[], [], [], [], [], []];
  const inOp = index.containing(text);
  for (const item of index.items) {
    const name = index.name(item);
    if (name.includes(text)) {
      const last = index.leaf(item);
      ranked[last === text || name === text ? 0 : last.startsWith(text) ? 1 : last.includes(text) ? 2 : 3].push(item);
    } else if (inOp(item)) ranked[4].push(item);
    else if (index.op(item) === "" && index.title(item).includes(text)) ranked[5].push(item);
  }
  return ranked.flat();
}

type Test = (item: number) => boolean;

/** What an item has to be for a term; along a path a word is an op, or the whole of a node's own name. */
function testOf(model: GraphModel, index: Index, term: Term, along: boolean): Test {
  const isNode = (item: number): boolean => model.nodeAt(item) >= 0;
  const ofCall = (fits: boolean[]): Test => (item) => isNode(item) && fits[model.call[model.nodeAt(item)]];
  const ofResult = (fits: (spec: string) => boolean): Test => {
    const { firstTensor, specOf, spec } = model;
    const which = spec.specs.map(fits);
    return (item) => {
      const node = model.nodeAt(item);
      for (let t = node < 0 ? 0 : firstTensor[node]; node >= 0 && t < firstTensor[node + 1]; t++) if (which[specOf[t]]) return true;
      return false;
    };
  };
  switch (term.kind) {
    case "pattern":
      return (item) => term.pattern.test(model.itemName(item).replace(/\/$/, "")) || (isNode(item) && term.pattern.test(model.op(model.nodeAt(item))));
    case "op":
      return ofCall(index.callsOf(term.text));
    case "layer":
      return (item) => !isNode(item) && (matches(term.text, index.name(item), index.leaf(item)) || matches(typed(term.text), index.title(item)));
    case "dtype":
      return ofResult((spec) => wild(shortDtype(term.text)).test(dtypeOf(spec)));
    case "shape":
      return ofResult((spec) => spec.includes("[") && fitsShape(term.sizes, sizesOf(spec)));
    case "attribute": {
      const all = model.spec.calls.map(attributesOf);
      if (!all.some((attributes) => attributes.has(term.name))) throw new Unreadable(noAttribute(term.name, all));
      return ofCall(all.map((attributes) => attributes.has(term.name) && compares(attributes.get(term.name)!, term.comparison, term.value)));
    }
    case "word": {
      if (term.text === "*") return along ? isNode : () => true;
      if (!along) return (item) => (isNode(item) ? matches(term.text, index.name(item), index.leaf(item), index.op(item)) : matches(term.text, index.name(item), index.leaf(item)) || matches(typed(term.text), index.title(item)));
      const op = ofCall(index.callsOf(term.text));
      const whole = isWild(term.text) ? (name: string) => wild(term.text).test(name) : (name: string) => name === term.text;
      return (item) => op(item) || (isNode(item) && whole(index.leaf(item)));
    }
  }
}

/** Whether a word is part of one of the texts, or with wildcards the whole of one. */
function matches(text: string, ...others: string[]): boolean {
  return isWild(text) ? others.some((other) => wild(text).test(other)) : others.some((other) => other.includes(text));
}

/** `f32` for `float32`, as specs have it. */
function shortDtype(text: string): string {
  return text.replace(/^bfloat(?=\d)/, "bf").replace(/^(f|i|u|c)(?:loat|nt|int|omplex)(?=\d)/, "$1");
}

function noAttribute(name: string, all: readonly Map<string, string>[]): string {
  const known = [...new Set(all.flatMap((attributes) => [...attributes.keys()]))];
  const close = known.filter((other) => other.startsWith(name.slice(0, 3)) || name.startsWith(other));
  return `no node has ${name}${close.length ? `; try ${close.slice(0, 3).join(", ")}` : known.length ? `; there are ${known.slice(0, 4).join(", ")}` : ""}`;
}

// Paths.

/** Paths that are told node by node; of all others it is known where they begin. */
const TOLD = 100;

/** The nodes from which a path fits. Every edge is looked at twice per step, however many paths there are. */
function paths(model: GraphModel, index: Index, steps: readonly Term[][]): { items: number[]; paths: number[][]; lit: number[]; problem: string } {
  const { n, edgeTensor, edgeTarget, nodeOf } = model;
  const last = steps.length - 1;
  const on = steps.map((terms) => {
    const tests = terms.map((term) => testOf(model, index, term, true));
    const fits = new Uint8Array(n);
    for (let node = 0; node < n; node++) if (tests.every((test) => test(model.frameOf(node)))) fits[node] = 1;
    return fits;
  });
  // What fits a step stays on it as long as a node of the step before leads there, then if it leads to one of the next.
  const narrow = (step: number, beside: number): void => {
    const kept = new Uint8Array(n);
    for (let e = 0; e < edgeTarget.length; e++) {
      const [from, to] = [nodeOf[edgeTensor[e]], edgeTarget[e]];
      const [node, other] = beside < step ? [to, from] : [from, to];
      if (on[beside][other]) kept[node] = on[step][node];
    }
    on[step] = kept;
  };
  for (let step = 1; step <= last; step++) narrow(step, step - 1);
  for (let step = last - 1; step >= 0; step--) narrow(step, step + 1);
  const flagged = (flags: Uint8Array): number[] => index.nodes.filter((node) => flags[node]);
  const starts = flagged(on[0]);
  const told = starts.slice(0, TOLD).map((start) => {
    const path = [start];
    for (let step = 1; step <= last; step++) path.push(outputsOf(model, path[step - 1]).find((reader) => on[step][reader])!);
    return path.map((node) => model.frameOf(node));
  });
  const lit = index.nodes.filter((node) => on.some((flags) => flags[node]));
  return { items: starts.map((node) => model.frameOf(node)), paths: told, lit: lit.map((node) => model.frameOf(node)), problem: "" };
}
