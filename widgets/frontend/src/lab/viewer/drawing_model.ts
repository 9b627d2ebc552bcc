// The graph of a file for the panel that draws it, over what the server has read of the header.

import type { Traits } from "../../core/contract";
import { SavedModel } from "../../core/saved";
import type { About } from "./page";
import type { Drawn, Inside } from "./served";

const INSIDE = "::"; // ends the name of what a node encloses

/** The graph of a file; what a node encloses is read when it is opened. */
export class DrawingModel extends SavedModel {
  private readonly asked = new Set<string>();

  constructor(private readonly about: About, drawn: Drawn, private readonly end: AbortSignal) {
    super(drawn, about.words("This is a file: open it in a notebook to change anything."));
  }

  override set<K extends keyof Traits>(key: K, value: Traits[K]): void {
    super.set(key, value);
    if (key === "expanded") for (const path of (value as string[] | null) ?? []) if (path.endsWith(INSIDE)) void this.open(path);
  }

  /** Brings a node into view. */
  point(node: string): void {
    this.set("selected", node);
  }

  /** Colours nodes by kind, those of none not at all. */
  light(title: string, kinds: ReadonlyMap<string, readonly string[]>): void {
    const { names } = this.get("graph_spec") as { names: string[] };
    const numbers = new Map([...kinds.values()].flatMap((nodes, kind) => nodes.map((node) => [node, kind] as const)));
    const values = new DataView(Float64Array.from(names, (name) => numbers.get(name) ?? NaN).buffer);
    this.set("overlay", { title, unit: "", scale: "linear", values, kinds: [...kinds.keys()] });
    this.set("color_by", "overlay");
  }

  private async open(path: string): Promise<void> {
    const known = (this.get("insides") ?? {}) as Record<string, object>;
    if (path.slice(0, -INSIDE.length) in known || this.asked.has(path)) return;
    this.asked.add(path);
    try {
      const { insides } = await this.about.served.get<Inside>("inside", { path: this.about.path, node: path }, this.end);
      this.set("insides", { ...(this.get("insides") as object), ...this.revived(insides) });
    } catch (error) {
      if (!this.end.aborted) this.set("message", String((error as Error).message));
    }
  }
}
