// A widget's model without a kernel: its state, and the messages that a new view would get, come from a file or a server.

import type { Model, ModelEvent, Question } from "./afm";
import type { Traits } from "./contract";

/** State of a widget in a file: traits, and the messages that a new view would get from the kernel. */
export interface Saved {
  state: Record<string, unknown>;
  messages: { content: unknown; buffers: unknown[] }[];
}

/** A model over plain values, which tells its views of each change. Who extends it says what becomes of questions. */
export abstract class PlainModel implements Model {
  private readonly listeners = new Map<string, Set<(...args: unknown[]) => void>>();
  protected readonly state: Record<string, unknown>;

  constructor(state: Record<string, unknown>) {
    this.state = revive(state) as Record<string, unknown>;
  }

  get<K extends keyof Traits>(key: K): Traits[K] {
    return this.state[key] as Traits[K];
  }

  set<K extends keyof Traits>(key: K, value: Traits[K]): void {
    this.state[key] = value;
    this.emit(`change:${key}`);
  }

  save_changes(): void {}

  abstract send(content: Question): void;

  on(event: ModelEvent, callback: (...args: never[]) => void): void {
    const known = this.listeners.get(event);
    if (known) known.add(callback as () => void);
    else this.listeners.set(event, new Set([callback as () => void]));
  }

  off(event: ModelEvent, callback: (...args: never[]) => void): void {
    this.listeners.get(event)?.delete(callback as () => void);
  }

  protected emit(event: ModelEvent, ...args: unknown[]): void {
    this.listeners.get(event)?.forEach((callback) => callback(...args));
  }

  /** What came as JSON, with its buffers. */
  protected revived<T>(value: T): T {
    return revive(value) as T;
  }

  protected tell(messages: Saved["messages"]): void {
    for (const { content, buffers } of messages) this.emit("msg:custom", content, revive(buffers));
  }
}

/** What is in a file. What is drawn can be explored; what would change the graph is left alone, with `why` as a message. */
export class SavedModel extends PlainModel {
  readonly saved = true;

  constructor(private readonly file: Saved, private readonly why = "This is a saved view: open the notebook to change anything.") {
    super(file.state);
  }

  send({ kind, id }: Question): void {
    queueMicrotask(() => {
      if (kind.endsWith(".sync")) this.tell(this.file.messages);
      else {
        this.set("message", this.why);
        this.tell([{ content: { kind: "refused", id }, buffers: [] }]);
      }
    });
  }
}

/** What a notebook that was made into a page holds of a widget: its traits, and what Python kept for a page without a kernel. */
export class DetachedModel extends SavedModel {
  constructor(private readonly source: Model) {
    super({ state: {}, messages: (source.get("_kept") ?? []) as Saved["messages"] });
  }

  override get<K extends keyof Traits>(key: K): Traits[K] {
    return key in this.state ? super.get(key) : this.source.get(key);
  }
}

/** Buffers are stored as `{"$bytes": base64}`. */
function revive(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(revive);
  if (value === null || typeof value !== "object" || ArrayBuffer.isView(value)) return value;
  const { $bytes } = value as { $bytes?: string };
  if (typeof $bytes === "string") return new DataView(Uint8Array.from(atob($bytes), (c) => c.charCodeAt(0)).buffer);
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, revive(inner)]));
}
