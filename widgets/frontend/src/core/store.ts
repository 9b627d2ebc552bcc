// What the kernel has told about one thing, kept from the moment the model exists: stores outlive views that come and go.

import type { Model } from "./afm";
import type { Request, Told } from "./contract";

export abstract class Store<Message extends { kind: Told }> {
  private readonly listeners = new Set<() => void>();

  /** Takes in a message; false if something before it is missing and everything has to be asked for. */
  protected abstract read(message: Message, buffers: DataView[]): boolean;

  take(message: Message, buffers: DataView[]): boolean {
    const complete = this.read(message, buffers);
    for (const listener of this.listeners) listener();
    return complete;
  }

  listen(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
}

/** Feeds a store with messages of some kinds, and asks with `sync` for all there is. */
export function followed<Message extends { kind: Told }, S extends Store<Message>>(
  model: Model, store: S, sync: Request, kinds: readonly Message["kind"][],
): S {
  model.on("msg:custom", (content: { kind: Told }, buffers: DataView[]) => {
    if (kinds.includes(content.kind) && !store.take(content as Message, buffers)) model.send({ kind: sync });
  });
  model.send({ kind: sync });
  return store;
}
