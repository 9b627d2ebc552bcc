// What the kernel has told about rollouts, or about pairs: the groups of a page with a number for each of their tokens, figures of
// all rollouts, and what is known of one token.

import type { Model } from "../../core/afm";
import type { Request, Told } from "../../core/contract";
import { followed, Store } from "../../core/store";

/** A completion, or one side of a pair. */
export interface Sample {
  row: number;
  /** Place of its first token: place t of a row is about token t + 1. */
  start: number;
  tokens: string[];
  length: number;
  reward: number | null;
  reason?: string;
  advantage?: number | null;
  /** What each reward gave. */
  parts?: (number | null)[];
  error?: string;
}

export interface Group {
  at: number;
  prompt: string;
  /** Mean reward, or the margin of a pair. */
  mean: number | null;
  rows: Sample[];
  /** How many rows there are, and how far their rewards are apart. */
  all?: number;
  spread?: number | null;
  alike?: boolean;
}

export interface Page {
  number?: number;
  measure?: string;
  names?: string[];
  /** Whether there are numbers to colour tokens by. */
  known?: boolean;
  middle?: number;
  limit: number;
  first: number;
  found: number;
  groups: Group[];
}

export interface Histogram {
  name: string;
  low: number | null;
  high: number | null;
  mean: number | null;
  counts: number[];
}

export interface TokenFacts {
  number?: number;
  step?: number;
  row: number;
  place: number;
  at: number;
  text: string;
  id: number;
  seed?: number;
  facts: [name: string, value: number | null][];
}

interface Figures {
  numbers: number[];
  curves: string[];
  histograms: Histogram[];
}

type Heard = { kind: Told } & (Page | Figures | TokenFacts);

export class SampleStore extends Store<Heard> {
  page: Page | undefined;
  histograms: Histogram[] = [];
  token: TokenFacts | undefined;
  /** Rollouts that the curves are of. */
  numbers: number[] = [];
  readonly curves = new Map<string, number[]>();
  private values = new Map<number, Float32Array>();

  protected read(message: Heard, [buffer]: DataView[]): boolean {
    const { kind, ...rest } = message;
    const numbers = buffer ? new Float32Array(buffer.buffer.slice(buffer.byteOffset, buffer.byteOffset + buffer.byteLength)) : new Float32Array(0);
    if (kind.endsWith(".token")) this.token = rest as TokenFacts;
    else if (kind === "rollouts.figures") {
      const { numbers: told, curves, histograms } = rest as Figures;
      [this.numbers, this.histograms] = [told, histograms];
      this.curves.clear();
      curves.forEach((name, k) => this.curves.set(name, [...numbers.subarray(k * told.length, (k + 1) * told.length)]));
    } else {
      const page = (this.page = rest as Page);
      if (page.number !== this.token?.number) this.token = undefined;
      this.values.clear();
      let at = 0;
      for (const { row, tokens } of page.groups.flatMap(({ rows }) => rows)) this.values.set(row, numbers.subarray(at, (at += tokens.length)));
    }
    return true;
  }

  /** The number of a token, which stands `at` in the completion of a row. */
  value(row: number, at: number): number {
    return this.values.get(row)?.[at] ?? NaN;
  }
}

export const sampleStore = (model: Model, sync: Request, kinds: readonly Told[]): SampleStore => followed(model, new SampleStore(), sync, kinds);
