// The graph with what its opened nodes enclose, and its layouts: each is made of the state ahead, and panel and graph
// take it over together, once it is there.

import { LayoutClient } from "./client";
import { spliced, type Insides } from "../model/insides";
import { GraphModel } from "../model/model";
import { OpenScopes } from "./open_scopes";
import type { Scene } from "./scene";
import type { GraphSpec } from "../model/wire";
import type { Model } from "../../../core/afm";

export class Layouts {
  readonly graph: GraphModel;
  readonly scopes: OpenScopes;
  private readonly client: LayoutClient;
  private ahead: GraphModel;
  private insides: Insides = {};
  private ticket = 0;
  private readonly sent: GraphSpec;

  constructor(private readonly model: Model) {
    this.sent = model.get("graph_spec") as GraphSpec;
    this.graph = new GraphModel(this.sent);
    this.ahead = this.graph;
    this.client = new LayoutClient(this.sent);
    this.scopes = new OpenScopes(this.graph, model);
  }

  /** Lays out what is open; undefined if a later request has overtaken this one. `leave` is called before the graph changes. */
  async next(aspect: number | undefined, leave: () => void): Promise<{ scene: Scene; ticket: number } | undefined> {
    const ticket = ++this.ticket;
    const insides = (this.model.get("insides") ?? {}) as Insides;
    if (insides !== this.insides) {
      this.insides = insides;
      this.ahead = new GraphModel(spliced(this.sent, insides));
    }
    const { ahead } = this;
    const open = this.scopes.wanted(ahead);
    const scene = await this.client.layout(ahead.spec, open, aspect);
    if (ticket !== this.ticket) return undefined;
    leave();
    if (ahead.spec !== this.graph.spec) this.graph.become(ahead);
    this.scopes.take(open);
    return { scene, ticket };
  }

  dispose(): void {
    this.ticket++; // a layout that is under way comes too late
    this.client.dispose();
  }
}
