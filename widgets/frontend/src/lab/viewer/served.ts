// What a viewer asks for: it knows neither JupyterLab nor where files lie.

import type { Saved } from "../../core/saved";

export type Query = Record<string, string | number | readonly string[] | undefined>;

export interface Served {
  /** Returns what the server says; raises `Refused`. */
  get<T>(what: string, query: Query, signal?: AbortSignal): Promise<T>;
  /** There is no server: what it said of files is kept in a site, and nothing else of them can be read. */
  readonly kept?: true;
}

/** An error of the house: what is wrong and where, what came in, what was needed, what to try. */
export class Refused extends Error {
  constructor(
    message: string, readonly status = 0, readonly where = "", readonly facts: readonly string[] = [], readonly need = "",
    readonly hint = "", readonly code = "",
  ) {
    super(message);
  }
}

/** Text in the language of the page; `%1` stands for the first argument. */
export type Words = (text: string, ...args: string[]) => string;

/** What every answer about a file has: another `stamp` says that it has changed on disk. */
interface Answer {
  path: string;
  stamp: string;
}

export interface TableOf {
  title: string;
  columns: string[];
  rows: string[][];
  notes: string[];
}

export interface Inspected extends Answer {
  /** Name of the format, as in `Formats`. */
  format: string;
  title: string;
  facts: [string, string][];
  tables: TableOf[];
  info: {
    name: string;
    format: string;
    bytes: number;
    parameters: number;
    inputs: Record<string, string>;
    outputs: Record<string, string>;
    ops: Record<string, number>;
    unknown_ops: Record<string, { why: string; nodes: string[] }>;
    findings: { what: string; where: string; grave: boolean }[];
  };
  /** Of tensors. */
  count: number;
}

export interface Formats {
  version: string;
  formats: {
    name: string;
    title: string;
    suffixes: string[];
    graph: boolean;
    /** What is called to read such a file: calls, or a sentence with one. */
    use: string;
  }[];
}

export interface Stamp extends Answer {
  kind: "file" | "folder";
  bytes: number;
  modified: number;
}

export interface Drawn extends Answer, Saved {
  nodes: number;
  notes: string[];
}

export interface TensorRow {
  name: string;
  dtype: string;
  shape: number[];
  bytes: number;
  /** How bytes stand for elements where they do not as in memory. */
  form: string;
}

export interface Tensors extends Answer {
  total: number;
  /** How many the filter keeps. */
  found: number;
  start: number;
  tensors: TensorRow[];
}

/** A tensor as its panel shows it. */
export interface TensorTold extends Answer, Saved {
  name: string;
  bytes: number;
  /** Of how many values one was read. */
  every: number;
  shape: number[];
  /** The first elements of text, which has no picture. */
  texts?: string[];
}

/** A part of a tensor's picture. */
export interface WindowTold extends Answer {
  part: object;
  buffers: unknown[];
}

/** An element of a tensor, or what a block of them holds. */
export interface ElementTold extends Answer {
  where: string;
  text: string;
}

/** The stored value of a node, as the message of an inspector. */
export interface ValuesTold extends Answer {
  messages: Saved["messages"];
}

export interface Fits extends Answer {
  /** Symbolic size -> where it stands. */
  sizes: Record<string, string>;
  machine: { total: number; available: number };
  rows: { sizes: Record<string, number>; run: number; train: number; runs: boolean; trains: boolean }[];
  counts: string;
}

export interface Inside extends Answer {
  insides: Record<string, object>;
}

interface ComparedTensor {
  name: string;
  other: string;
  status: "equal" | "differs" | "only a" | "only b" | "shape";
  a: { spec: string } | null;
  b: { spec: string } | null;
  /** Largest difference of two elements; text where it is infinite, null where it is not a number or not known. */
  max: number | string | null;
  /** Norm of the difference, over the norm of `a`. */
  relative: number | string | null;
  every: number;
}

export interface Compared {
  a: string;
  b: string;
  /** Only with the first tensors; null where a file holds no graph. */
  structure?: {
    /** How many nodes are the same. */
    same: number;
    changed: { a: string; b: string; differs: ("name" | "op" | "spec" | "inputs")[] }[];
    removed: string[];
    added: string[];
  } | null;
  total: number;
  start: number;
  next: number | null;
  tensors: ComparedTensor[];
}
