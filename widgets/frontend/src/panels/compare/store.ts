// What the kernel has told about the last comparison: how far it is, and every node when it has ended.

import type { Model } from "../../core/afm";
import type { Told } from "../../core/contract";
import { grouped } from "../../core/format";
import { followed, Store } from "../../core/store";

export type Verdict = "ok" | "differs" | "fails" | "inside" | "random" | "unknown";

export interface NodeRow {
  /** Its address; a scope, with a slash behind, where it is several nodes. */
  name: string;
  op: string;
  /** Operators and result in the model. */
  onnx: string;
  spec: string;
  /** Relative errors, what came with the inputs included, and without; null where there is none that is finite. */
  error: number | null;
  own: number | null;
  /** The largest difference, in shares of what rounding explains; null where nothing does. */
  ratio: number | null;
  verdict: Verdict;
  reason: string;
  /** What a second opinion says. */
  second: string;
  where: string;
  /** What is lit for it in the drawing. */
  lit: string;
}

export interface Facts {
  run: number;
  by: string;
  feeds: string;
  done: number;
  total: number;
  name: string;
  error: string;
  seconds: number;
  finding: string;
  first: NodeRow | null;
}

interface CompareMessage extends Facts {
  kind: Told;
  rows: NodeRow[];
}

export class CompareStore extends Store<CompareMessage> {
  facts: Facts | undefined;
  rows: readonly NodeRow[] = [];

  protected read({ kind: _, rows, ...facts }: CompareMessage): boolean {
    this.facts = facts;
    this.rows = rows;
    return true;
  }
}

export const compareStore = (model: Model): CompareStore => followed(model, new CompareStore(), "compare.sync", ["compare.rows"]);

export const differs = ({ verdict }: NodeRow): boolean => verdict === "differs" || verdict === "fails";

/** How much of what rounding explains a difference takes: `equal`, `0.12`, `530`, `beyond`. */
export function shareText({ ratio, verdict }: NodeRow): string {
  if (verdict === "random" || verdict === "unknown" || verdict === "fails") return "";
  if (ratio === null || ratio >= 1e6) return "beyond";
  return ratio === 0 ? "equal" : ratio >= 100 ? grouped(Math.round(ratio)) : String(Number(ratio.toPrecision(2)));
}

/** What orders nodes from right to wrong. */
export const badness = (row: NodeRow): number => (row.verdict === "fails" ? Infinity : (row.ratio ?? Infinity));
