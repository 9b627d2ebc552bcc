// What a watch of the gradients has told: a point for each look, beside the error that would have passed, and alarms.

import type { Model } from "../../core/afm";
import { bytes, float64, int32 } from "../../core/buffers";
import { followed, Store } from "../../core/store";

export interface Alarm {
  step: number;
  address: string;
  text: string;
  op: string;
  where: string;
  nodes: string[];
}

interface WatchMessage {
  kind: "watch.points";
  names: string[];
  kinds: ("node" | "element" | "precision")[];
  worst: string | null;
  alarms: Alarm[];
  /** Its part of the time, how often all nodes have had their turn, and how many looks there were. */
  share: number;
  rounds: number;
  looks: number;
}

export type LookVerdict = "ok" | "kink" | "unclear" | "surrogate" | "fail";

/** Verdicts of looks from best to worst, as the kernel numbers them. */
export const LOOKS: readonly LookVerdict[] = ["ok", "kink", "unclear", "surrogate", "fail"];

/** One look at a node or at an element of a parameter. */
export interface Look {
  step: number;
  error: number;
  noise: number;
  verdict: LookVerdict;
  name: string;
  kind: WatchMessage["kinds"][number];
}

export class WatchStore extends Store<WatchMessage> {
  facts: WatchMessage | undefined;
  looks: Look[] = [];

  protected read(content: WatchMessage, [steps, errors, noises, verdicts, names]: DataView[]): boolean {
    const [step, error, noise] = [steps, errors, noises].map(float64);
    const verdict = new Uint8Array(bytes(verdicts));
    const name = int32(names);
    this.facts = content;
    this.looks = Array.from(step, (at, k) => ({
      step: at, error: error[k], noise: noise[k], verdict: LOOKS[verdict[k]], name: content.names[name[k]], kind: content.kinds[k],
    }));
    return true;
  }
}

export const watchStore = (model: Model): WatchStore => followed(model, new WatchStore(), "watch.sync", ["watch.points"]);
