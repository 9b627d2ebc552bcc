// What a viewer asks for: it knows neither JupyterLab nor where files lie.

import type { Saved } from "../../core/saved";

export type Query = Record<string, string | number | undefined>;

export interface Served {
  /** Returns what the server says; raises `Refused`. */
  get<T>(what: string, query: Query, signal?: AbortSignal): Promise<T>;
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
  formats: { name: string; title: string; suffixes: string[]; graph: boolean }[];
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
