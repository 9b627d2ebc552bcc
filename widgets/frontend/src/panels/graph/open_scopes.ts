// Which scopes are open, over the trait `expanded`; None stands for as many as stay readable.

import type { GraphModel } from "./model";
import { commit, type Model } from "../../core/afm";

export class OpenScopes {
  private open = new Set<number>();

  constructor(private readonly graph: GraphModel, private readonly model: Model) {}

  /** Takes over the trait and returns the scopes to lay out. */
  read(): number[] {
    const wanted = this.model.get("expanded") as string[] | null;
    const scopes = wanted ? wanted.map((path) => this.graph.scope(path)).filter((s) => s > 0) : this.graph.openAtFirst();
    this.open = this.graph.opened(scopes);
    return scopes;
  }

  has(scope: number): boolean {
    return this.open.has(scope);
  }

  /** Open scopes, as the outline lists them. */
  get all(): Set<number> {
    return this.open;
  }

  set(scope: number, open: boolean): void {
    const next = new Set([...this.open].map((s) => this.graph.stateOf(s)));
    if (open) next.add(this.graph.stateOf(scope));
    else next.delete(this.graph.stateOf(scope));
    this.commit(next);
  }

  /** Opens what is closed around an item; false if nothing was. */
  around(item: number): boolean {
    const { scopes, scopeOf, n } = this.graph;
    const closed: number[] = [];
    let scope = item < n ? scopeOf[item] : scopes[item - n].parent;
    for (; scope > 0; scope = scopes[scope].parent) if (!this.open.has(scope)) closed.push(scope);
    if (closed.length) this.commit([...this.open, ...closed]);
    return closed.length > 0;
  }

  commit(scopes: Iterable<number>): void {
    const paths = new Set([...scopes].map((s) => this.graph.scopes[this.graph.stateOf(s)].path));
    commit(this.model, "expanded", [...paths].sort());
  }
}
