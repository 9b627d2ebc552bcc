// What the kernel has told about a text: its tokens as they come, and what was looked at last.

import type { Model } from "../../core/afm";
import type { Told } from "../../core/contract";
import { followed, Store } from "../../core/store";

/** Text, number, logit and probability of a token that might have come. */
export type Choice = [text: string, id: number, logit: number | null, p: number | null];

export interface Token {
  text: string;
  id: number;
  /** Probability, and place among all by it; null where nothing is known, as of a prompt. */
  p: number | null;
  rank: number | null;
  choices: Choice[];
}

export interface Facts {
  run: number;
  /** How many tokens are the prompt's, and how many more were asked for. */
  prompt: number;
  wanted: number;
  rate: number;
  likelihood: number | null;
  perplexity: number | null;
  scored: boolean;
  error: string;
}

/** Weights of attention from rows of tokens, the last of which is `at`, to all up to it; keys and values that are kept of it. */
export interface Attention {
  run: number;
  at: number;
  layer: number;
  head: number;
  rows: number;
  kv_heads: number;
  /** Bytes that keys and values of all tokens up to it take, in this layer. */
  kept: number;
  weights: Float32Array;
  /** Keys by heads, then values. */
  cache: Float32Array;
}

/** What each token before `at` adds to its logit, and the size of that in parts of the whole. */
export interface Why {
  run: number;
  at: number;
  chosen: Choice;
  scores: number[];
  shares: number[];
}

type TextMessage = { kind: Told } & (({ start: number; rows: Token[] } & Facts) | Omit<Attention, "weights" | "cache"> | Why);

export class TextStore extends Store<TextMessage> {
  tokens: Token[] = [];
  facts: Facts | undefined;
  private attended: Attention | undefined;
  private explained: Why | undefined;

  protected read(message: TextMessage, buffers: DataView[]): boolean {
    if (message.kind === "text.attention") {
      const [weights, cache] = buffers.map(({ buffer, byteOffset, byteLength }) => new Float32Array(buffer.slice(byteOffset, byteOffset + byteLength)));
      this.attended = { ...(message as Omit<Attention, "weights" | "cache">), weights, cache };
      return true;
    }
    if (message.kind === "text.why") {
      this.explained = message as Why & { kind: Told };
      return true;
    }
    const { start, rows, ...facts } = message as { start: number; rows: Token[] } & Facts;
    const other = facts.run !== this.facts?.run;
    if (start > (other ? 0 : this.tokens.length)) return false;
    const held = other ? [] : this.tokens;
    this.tokens = [...held.slice(0, start), ...rows, ...held.slice(start + rows.length)]; // the prompt's are told again, once they are read
    this.facts = facts;
    return true;
  }

  /** What is known of the token at a place of the text that stands now. */
  attention(at: number): Attention | undefined {
    return this.attended?.at === at && this.attended.run === this.facts?.run ? this.attended : undefined;
  }

  why(at: number): Why | undefined {
    return this.explained?.at === at && this.explained.run === this.facts?.run ? this.explained : undefined;
  }
}

export const textStore = (model: Model): TextStore =>
  followed(model, new TextStore(), "text.sync", ["text.tokens", "text.attention", "text.why"]);

/** How a probability is shown: 0.06 %, 4.1 %, 98 %. */
export function percent(p: number | null): string {
  if (p === null) return "";
  const value = 100 * p;
  if (value > 0 && value < 0.01) return "< 0.01 %";
  return `${value >= 10 ? Math.round(value) : Number(value.toPrecision(2))} %`;
}

/**
 * How surprising a token was, from −1 for certain to 1 for one in a thousand and less; 0 is one of two. Logarithmic on the
 * side of surprise, where each halving of the probability is a bit.
 */
export function surprise(p: number): number {
  return p >= 0.5 ? 1 - 2 * p : Math.min(1, (-Math.log2(p) - 1) / 9);
}
