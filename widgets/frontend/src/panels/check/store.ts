// What the kernel has told about the last check: rows that grow, maps of elements, curves.

import { ask, isSaved, type Model } from "../../core/afm";
import { bytes, float64 } from "../../core/buffers";
import type { Told } from "../../core/contract";
import { followed, Store } from "../../core/store";

export type Verdict = "ok" | "fail" | "kink" | "unclear" | "unchecked" | "stopped" | "surrogate";

/** Verdicts from best to worst. */
export const VERDICTS: readonly Verdict[] = ["unchecked", "ok", "surrogate", "kink", "unclear", "fail"];

/** How elements were checked, as the kernel numbers it. */
export const WAYS = ["unchecked", "certified", "differenced", "probed"] as const;

export interface Finding {
  verdict: Verdict;
  text: string;
  nodes: string[];
}

export interface Place {
  name: string;
  index: number[];
  part: string;
}

export interface ParameterRow {
  name: string;
  shape: (number | string)[];
  size: number;
  checked: number;
  direction: boolean;
  kinks: number;
  /** How many elements were settled by the chain, by differences together with others, and one by one. */
  certified: number;
  differenced: number;
  probed: number;
  /** Nodes on the way to the loss whose declared gradient the differences follow. */
  surrogates: string[];
  error: number | null;
  verdict: Verdict;
  where: string;
  troubles: { index: number[]; part: string; verdict: Verdict; text: string }[];
}

export interface NodeRow {
  name: string;
  op: string;
  verdict: Verdict;
  reason: string;
  where: string;
  error: number | null;
  seconds: number;
  /** What is at fault in it: itself, or nodes inside, in how many turns. */
  faults: { address: string; op: string; turns: string }[];
}

export interface Facts {
  run: number;
  loss: string;
  value: string;
  feeds: string;
  training: boolean;
  done: number;
  total: number;
  name: string;
  seconds: number;
  curves: boolean;
  error: string;
  findings: Finding[];
}

interface CheckMessage extends Facts {
  kind: "check.rows";
  parameters: ParameterRow[];
  first: number;
  nodes: NodeRow[];
}

/** The checked elements of a parameter, by ascending place in memory. Complex numbers are pairs. */
export interface ElementMap {
  name: string;
  shape: number[];
  complex: boolean;
  at: Int32Array;
  verdicts: Verdict[];
  /** Numbers of `WAYS`. */
  ways: Uint8Array;
  errors: Float64Array;
  analytic: Float64Array;
  numeric: Float64Array;
}

export interface Curve extends Place {
  verdict: Verdict;
  text: string;
  points: number;
  value: number;
  loss: number;
  analytic: number;
  numeric: number;
  left: number;
  right: number;
  offsets: Float64Array;
  changes: Float64Array;
  steps: Float64Array;
  errors: Float64Array;
  floor: Float64Array;
}

const PATIENCE = 1000; // ms between two requests for a map that grows

export const placeKey = ({ name, index, part }: Place): string => JSON.stringify([name, index, part]);

export class CheckStore extends Store<{ kind: Told; run: number }> {
  facts: Facts | undefined;
  readonly parameters = new Map<string, ParameterRow>();
  nodes: NodeRow[] = [];
  readonly maps = new Map<string, ElementMap>();
  readonly curves = new Map<string, Curve>();
  private readonly asked = new Map<string, number>();

  protected read(content: { kind: Told; run: number }, buffers: DataView[]): boolean {
    if (content.kind === "check.rows") return this.takeRows(content as CheckMessage);
    if (content.run !== this.facts?.run) return content.run < (this.facts?.run ?? 0);
    if (content.kind === "check.map") this.takeMap(content as unknown as ElementMap & { known: Verdict[] }, buffers);
    else if (content.kind === "check.curve") this.takeCurve(content as unknown as Curve, buffers);
    return true;
  }

  private takeRows({ parameters, first, nodes, kind: _, ...facts }: CheckMessage): boolean {
    if (facts.run !== this.facts?.run) {
      this.parameters.clear();
      this.maps.clear();
      this.curves.clear();
      this.asked.clear();
      this.nodes = [];
    }
    if (first > this.nodes.length) return false;
    this.facts = facts;
    this.nodes = [...this.nodes.slice(0, first), ...nodes];
    for (const row of parameters) this.parameters.set(row.name, row);
    return true;
  }

  private takeMap(facts: ElementMap & { known: Verdict[] }, [at, verdicts, ways, ...rest]: DataView[]): void {
    const [errors, analytic, numeric] = rest.map(float64);
    this.maps.set(facts.name, {
      ...facts, errors, analytic, numeric,
      at: new Int32Array(bytes(at)), ways: new Uint8Array(bytes(ways)),
      verdicts: Array.from(new Uint8Array(bytes(verdicts)), (k) => facts.known[k]),
    });
  }

  private takeCurve(facts: Curve, buffers: DataView[]): void {
    const [slopes, offsets, changes, steps, errors, floor] = buffers.map(float64);
    const [value, loss, analytic, numeric, left, right] = slopes;
    this.curves.set(placeKey(facts), { ...facts, value, loss, analytic, numeric, left, right, offsets, changes, steps, errors, floor });
  }

  /** Asks for the map of a parameter if there is a newer one. */
  want(model: Model, name: string): void {
    const row = this.parameters.get(name);
    if (isSaved(model) || !row || row.checked <= (this.maps.get(name)?.at.length ?? 0)) return;
    const now = Date.now();
    if (now - (this.asked.get(name) ?? 0) < PATIENCE) return;
    this.asked.set(name, now);
    setTimeout(() => this.want(model, name), PATIENCE + 50);
    ask(model, "check.map", { name });
  }
}

export const checkStore = (model: Model): CheckStore => followed(model, new CheckStore(), "check.sync", ["check.rows", "check.map", "check.curve"]);
