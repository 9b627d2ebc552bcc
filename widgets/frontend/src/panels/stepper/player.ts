// A recorded run, walked forwards and backwards in a page without a kernel.

import type { Model } from "../../core/afm";
import type { WatchFacts } from "./stops";
import { stepping, type Focus, type NodeFacts, type Row, type TensorFacts } from "./steps";

export interface Recording {
  position: number;
  nodes: (NodeFacts & { in: number[]; out: number[] })[];
  tensors: (Omit<TensorFacts, "side" | "thumb" | "thumb_shape"> & { thumb?: [offset: number, height: number, width: number] })[];
  rows: Row[];
  /** What is watched, and the position from which its value is known. */
  watches: (WatchFacts & { known: number })[];
  failed: number;
  error: string;
  note: string;
}

export class Player {
  private position = 0;
  /** By tensor, the index of the node that makes it. */
  private readonly makers: Map<number, number>;

  constructor(private readonly model: Model, private readonly run: Recording, private readonly thumbs: DataView) {
    this.makers = new Map(run.nodes.flatMap((node, index) => node.out.map((id) => [id, index] as const)));
    this.show(run.position);
  }

  /** Does what the kernel would do, as far as it was recorded; false for what needs a kernel. */
  move(verb: string, name = ""): boolean {
    const { nodes, failed } = this.run;
    const end = failed >= 0 ? failed : nodes.length;
    const places: Record<string, () => number> = {
      step: () => this.position + 1,
      back: () => this.position - 1,
      reset: () => 0,
      run: () => end,
      run_to: () => nodes.findIndex((node) => node.name === name),
      into_gradient: () => nodes.findIndex((node) => (name ? node.of === name : node.of !== "")),
    };
    if (!(verb in places)) return false;
    const to = places[verb]();
    if (to >= 0) this.show(Math.min(to, end));
    return true;
  }

  look(name: string): void {
    const index = this.run.nodes.findIndex((node) => node.name === name);
    if (index >= 0) this.show(this.position, index);
  }

  private show(position: number, look?: number): void {
    const { nodes, rows, failed, error, note } = this.run;
    this.position = position;
    const last = position >= nodes.length;
    const stuck = position === failed;
    this.model.set("watches", this.run.watches.map(({ known, ...watch }) => (known > position ? { text: watch.text, waits: true } : watch)));
    this.model.set("current", nodes[position]?.path ?? "");
    this.model.set("stepping", {
      ...stepping(this.model),
      mode: "ready", level: 0, epoch: 0, position, count: nodes.length, pending: 0, stale: "", rows,
      crumbs: stepping(this.model).crumbs.slice(0, 1),
      prefix: "",
      focus: this.focus(look ?? Math.min(position, nodes.length - 1)),
      say: stuck ? error : last ? note || "Everything has run." : note,
      tone: stuck ? "error" : "",
      failed: stuck ? failed : undefined,
    });
  }

  private focus(index: number): Focus | null {
    const node = this.run.nodes[index];
    if (!node) return null;
    const tensor = (side: "in" | "out") => (id: number): TensorFacts => {
      const { thumb, ...facts } = this.run.tensors[id];
      if ((this.makers.get(id) ?? -1) >= this.position || !thumb) return { name: facts.name, spec: facts.spec, side };
      const [offset, height, width] = thumb;
      const { buffer, byteOffset } = this.thumbs;
      return { ...facts, side, thumb_shape: [height, width], thumb: new DataView(buffer, byteOffset + offset, height * width) };
    };
    return { ...node, tensors: [...node.in.map(tensor("in")), ...node.out.map(tensor("out"))] };
  }
}
