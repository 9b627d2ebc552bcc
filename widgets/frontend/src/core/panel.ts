// The contract of a panel: what its folder gives to the widgets that show it.

import type { Model } from "./afm";

export interface Panel<Shared = undefined> {
  /** Called once, when the model exists; what it returns is shared by all views, and outlives them. */
  prepare(model: Model): Shared;
  /** Builds one view inside `host`, and returns what takes it down again. */
  mount(host: HTMLElement, model: Model, shared: Shared): () => void;
}
