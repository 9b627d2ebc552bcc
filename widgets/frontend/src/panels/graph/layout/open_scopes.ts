// Which scopes and nodes are open, over the trait `expanded`; None stands for as many scopes as stay readable.

import { openAtFirst } from "./first";
import type { GraphModel } from "../model/model";
import { enclosing } from "../model/names";
import { commit, type Model } from "../../../core/afm";

export class OpenScopes {
  private open = new Set<number>();

  constructor(private readonly graph: GraphModel, private readonly model: Model) {}

  /** The scopes to lay out; nodes are among them once the kernel has sent what they enclose. */
  wanted(graph: GraphModel): number[] {
    const wanted = this.model.get("expanded") as string[] | null;
    return wanted ? wanted.map((path) => graph.scope(path)).filter((s) => s > 0) : openAtFirst(graph);
  }

  /** Takes over what has been laid out. */
  take(scopes: number[]): void {
    this.open = this.graph.opened(scopes);
  }

  has(item: number): boolean {
    return this.open.has(item - this.graph.n);
  }

  /** Open scopes, as the outline lists them. */
  get all(): Set<number> {
    return this.open;
  }

  /** Opens or closes a scope or a node; what repeats opens and closes together. */
  set(item: number, open: boolean): void {
    const next = new Set(this.paths());
    for (const copy of this.copies(item)) {
      if (open) next.add(this.graph.pathOf(copy));
      else next.delete(this.graph.pathOf(copy));
    }
    this.write(next);
  }

  private copies(item: number): number[] {
    const { scopes, n } = this.graph;
    if (item < n) return [item];
    const { parent, like } = scopes[this.graph.stateOf(item - n)];
    if (parent < 0 || scopes[parent].kind !== "run") return [item];
    return scopes[parent].scopes.filter((s) => scopes[s].like === like).map((s) => n + s);
  }

  /** Opens what is closed around an item; false if nothing was. */
  around(item: number): boolean {
    const { scopes, scopeOf, n } = this.graph;
    const closed: string[] = [];
    let scope = item < n ? scopeOf[item] : scopes[item - n].parent;
    for (; scope > 0; scope = scopes[scope].parent) if (!this.open.has(scope)) closed.push(this.graph.pathOf(n + scope));
    if (closed.length) this.write([...this.paths(), ...closed]);
    return closed.length > 0;
  }

  /** Opens all nodes and scopes that enclose an address, once. */
  to(address: string): void {
    const paths = this.paths();
    const { scopes, scopeOf, n } = this.graph;
    const outer = this.graph.node(address.slice(0, address.indexOf(":"))); // where that stands, its name need not tell
    const needed = enclosing(address).filter((path) => outer < 0 || path.includes(":"));
    for (let s = outer < 0 ? 0 : scopeOf[outer]; s > 0; s = scopes[s].parent) needed.push(this.graph.pathOf(n + s));
    const missing = needed.filter((path) => !paths.includes(path));
    if (missing.length) this.write([...paths, ...missing]);
  }

  commit(scopes: Iterable<number>): void {
    this.write([...scopes].map((s) => this.graph.pathOf(this.graph.n + s)));
  }

  private paths(): string[] {
    const { graph } = this;
    const wanted = this.model.get("expanded") as string[] | null;
    const known = (path: string): string => (graph.scope(path) > 0 ? graph.pathOf(graph.n + graph.scope(path)) : path);
    return wanted ? wanted.map(known) : this.wanted(graph).map((s) => graph.pathOf(graph.n + s));
  }

  private write(paths: Iterable<string>): void {
    commit(this.model, "expanded", [...new Set(paths)].sort());
  }
}
