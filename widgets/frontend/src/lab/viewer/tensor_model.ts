// A tensor of a file for the panel of tensors: its questions go to the server, which reads the ranges that they are about.

import type { Question } from "../../core/afm";
import type { Traits } from "../../core/contract";
import { PlainModel } from "../../core/saved";
import { isAbort } from "./problem";
import type { About } from "./page";
import { Refused, type TensorTold } from "./served";

/** What the server is asked for; all else is a matter of how it is looked at. */
const ASKED = { plane: "tensor_plane", part: "tensor_part", scope: "tensor_scope", exact: "tensor_exact" } as const;

export class TensorModel extends PlainModel {
  private asking: AbortController | undefined;

  constructor(private readonly about: About, private readonly name: string, private told: TensorTold) {
    super(told.state);
  }

  override set<K extends keyof Traits>(key: K, value: Traits[K]): void {
    super.set(key, value);
    if (Object.values<string>(ASKED).includes(key)) void this.ask(this.get("tensor_index"));
  }

  override send({ kind, id, ...facts }: Question): void {
    const end = (): void => this.tell([{ content: { kind: "done", id }, buffers: [] }]);
    queueMicrotask(() => {
      if (id !== undefined) this.tell([{ content: { kind: "heard", id }, buffers: [] }]);
      if (kind === "tensor.sync") this.tell(this.told.messages);
      else if (kind === "tensor.index") void this.ask(String(facts.text)).finally(end);
      else {
        if (kind === "tensor.jump") super.set("tensor_cursor", facts.at as number[]);
        end();
      }
    });
  }

  dispose(): void {
    this.asking?.abort();
  }

  /** Reads another slice; one that is asked for meanwhile takes its place. */
  private async ask(index: string): Promise<void> {
    this.asking?.abort();
    const { signal } = (this.asking = new AbortController());
    const { served, path } = this.about;
    const query = Object.fromEntries(Object.entries(ASKED).map(([key, trait]) => [key, asText(this.get(trait))]));
    try {
      this.told = await served.get<TensorTold>("tensor", { path, name: this.name, index, ...query }, signal);
      super.set("message", "");
      super.set("tensor_index", String(this.told.state.tensor_index ?? index));
      this.tell([{ content: { kind: "tensor.fits" }, buffers: [] }, ...this.told.messages]);
    } catch (error) {
      if (isAbort(error)) return;
      const text = [String((error as Error).message), error instanceof Refused ? error.need : ""].filter(Boolean).join(": ");
      if (error instanceof Refused && error.status === 400) this.tell([{ content: { kind: "tensor.problem", text, at: 0, length: index.length }, buffers: [] }]);
      else super.set("message", text);
    }
  }
}

function asText(value: unknown): string | undefined {
  if (Array.isArray(value)) return value.length ? value.join() : undefined;
  return typeof value === "boolean" ? String(Number(value)) : value === undefined ? undefined : String(value);
}
