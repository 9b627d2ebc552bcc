// The graph of a file for the panel that draws it, over what the server has read of the header.

import type { Traits } from "../../core/contract";
import { SavedModel } from "../../core/saved";
import { Latest } from "./latest";
import type { About } from "./page";
import type { Drawn, Inside, ValuesTold } from "./served";

const INSIDE = "::"; // ends the name of what a node encloses
const VARIABLE = 2; // the first kind of node that has a value, as the drawing counts them; constants are the other

/** The graph of a file; what a node encloses is read when it is opened, values when the sheet of one is looked at. */
export class DrawingModel extends SavedModel {
  private readonly asked = new Set<string>();
  private readonly looks = new Latest();

  constructor(private readonly about: About, drawn: Drawn, private readonly end: AbortSignal) {
    super(drawn, about.words("This is a file: open it in a notebook to change anything."));
  }

  override set<K extends keyof Traits>(key: K, value: Traits[K]): void {
    super.set(key, value);
    if (key === "expanded") for (const path of (value as string[] | null) ?? []) if (path.endsWith(INSIDE)) void this.open(path);
    if (key === "selected" || key === "inspector") this.look();
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

  /** Reads statistics and picture of what is selected, if its values stand in the file. */
  private look(): void {
    const node = String(this.get("selected") ?? "");
    if (this.get("inspector") && this.isStored(node)) this.looks.ask(() => this.read(node));
  }

  private isStored(node: string): boolean {
    const { names, kind } = this.get("graph_spec") as { names: string[]; kind: DataView };
    const at = names.indexOf(node);
    return at >= 0 && kind.getUint8(at) >= VARIABLE;
  }

  private async read(node: string): Promise<void> {
    const { served, path } = this.about;
    try {
      if (this.end.aborted) return;
      const { messages } = await served.get<ValuesTold>("values", { path, node }, this.end);
      this.set("message", "");
      this.tell(messages);
    } catch (error) {
      // A site without a server keeps the values of some nodes.
      if (!this.end.aborted && !served.kept) this.set("message", String((error as Error).message));
    }
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
