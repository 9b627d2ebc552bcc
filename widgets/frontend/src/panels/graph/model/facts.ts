// What the kernel knows of nodes beside the drawing: facts of all of them, values of the one that is selected, code. It is
// asked for when somebody looks; a saved page has it with it.

import { int32, float64 } from "../../../core/buffers";
import type { Model } from "../../../core/afm";
import { Store } from "../../../core/store";

export interface OpFacts {
  summary: string;
  formula: string;
  /** What attributes mean, by name. */
  attributes: Record<string, string>;
}

/** Columns for the nodes of the graph as it was sent. */
export interface NodeFacts {
  /** Documentation, by name of the op. */
  ops: Record<string, OpFacts>;
  /** Of each distinct call the line of code, with `{}` for its inputs. */
  lines: string[];
  places: string[];
  /** Index into `places`, or -1. */
  place: Int32Array;
  flops: Float64Array;
  /** Why the arithmetic of a node is not known, by its number; it is NaN there. */
  uncounted: Record<string, string>;
  bytes: Float64Array;
  /** At which sizes: ` at B = 8`. */
  sized: string;
}

/** A result of the selected node. */
export interface TensorValues {
  label: string;
  source: "stepper" | "stored" | "file";
  thumb: [height: number, width: number];
  /** Elements from -127 to 127 around 127; 255 is not finite. */
  picture: DataView;
  low: number | null;
  high: number | null;
  nan: number;
  inf: number;
  mean?: number;
  std?: number;
  zeros?: number;
  /** A histogram of the finite elements from `low` to `high`. */
  bars?: number[];
  /** Of how many elements one was read. */
  every?: number;
}

type Sent = Omit<NodeFacts, "place" | "flops" | "bytes" | "sized"> & { kind: "inspector.facts"; nodes: number; sizes: Record<string, number> };
type Message =
  | Sent
  | { kind: "inspector.values"; name: string; tensors: Omit<TensorValues, "picture">[]; gradient?: number | null }
  | { kind: "inspector.code"; name: string; code: string };

export class FactStore extends Store<Message> {
  facts: NodeFacts | undefined;
  /** The node that values are of. */
  name = "";
  values: TensorValues[] = [];
  /** Norm of the gradient of a parameter, where a training has been sampled. */
  gradient: number | undefined;
  private asked = false;
  private onCode: ((code: string) => void) | undefined;

  constructor(private readonly model: Model) {
    super();
    model.on("msg:custom", (content: Message, buffers: DataView[]) => {
      if (content.kind?.startsWith("inspector.")) this.take(content, buffers);
    });
    model.on("change:graph_spec", () => {
      this.facts = undefined; // of another graph; whoever looks asks anew
      this.asked = false;
    });
  }

  /** Asks for what is known, once. */
  want(): void {
    if (this.asked || this.model.get("inspector") === undefined) return;
    this.asked = true;
    this.model.send({ kind: "inspector.sync" });
  }

  /** Calls back with the program of the next answer. */
  code(use: (code: string) => void): void {
    this.onCode = use;
  }

  protected read(message: Message, buffers: DataView[]): boolean {
    if (message.kind === "inspector.facts") {
      const [place, flops, bytes] = buffers;
      const sizes = Object.entries(message.sizes).map(([symbol, size]) => `${symbol} = ${size}`);
      this.facts = { ...message, place: int32(place), flops: float64(flops), bytes: float64(bytes), sized: sizes.length ? ` at ${sizes.join(", ")}` : "" };
    } else if (message.kind === "inspector.values") {
      this.name = message.name;
      this.gradient = message.gradient ?? undefined;
      this.values = message.tensors.map((tensor, k) => ({ ...tensor, picture: buffers[k] }));
    } else {
      this.onCode?.(message.code);
      this.onCode = undefined;
    }
    return true;
  }
}

const stores = new WeakMap<Model, FactStore>();

/** The store of a model, which outlives its views. */
export function factsOf(model: Model): FactStore {
  let store = stores.get(model);
  if (!store) stores.set(model, (store = new FactStore(model)));
  return store;
}
