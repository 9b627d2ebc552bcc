// A tensor of a file for the panel of tensors: its questions go to the server, which reads the ranges that they are about.

import type { Question } from "../../core/afm";
import type { Traits } from "../../core/contract";
import { PlainModel } from "../../core/saved";
import { Latest } from "./latest";
import { isAbort } from "./problem";
import type { About } from "./page";
import { Refused, type ElementTold, type Query, type TensorTold, type WindowTold } from "./served";

/** What the server is asked for; all else is a matter of how it is looked at. */
const ASKED = { plane: "tensor_plane", part: "tensor_part", scope: "tensor_scope", exact: "tensor_exact" } as const;

export class TensorModel extends PlainModel {
  private asking: AbortController | undefined; // for another picture
  private readonly closer = new Latest();
  private readonly pointed = new Latest();

  constructor(private readonly about: About, private readonly name: string, private told: TensorTold) {
    super(told.state);
  }

  override set<K extends keyof Traits>(key: K, value: Traits[K]): void {
    super.set(key, value);
    if (Object.values<string>(ASKED).includes(key)) void this.show(this.get("tensor_index"));
  }

  override send({ kind, id, ...facts }: Question): void {
    const end = (): void => this.tell([{ content: { kind: "done", id }, buffers: [] }]);
    queueMicrotask(() => {
      if (id !== undefined) this.tell([{ content: { kind: "heard", id }, buffers: [] }]);
      if (kind === "tensor.sync") this.tell(this.told.messages);
      else if (kind === "tensor.index") void this.show(String(facts.text)).finally(end);
      else if (kind === "tensor.window") this.closer.ask(() => this.look(facts));
      else if (kind === "tensor.value") this.pointed.ask(() => this.point(facts));
      else {
        if (kind === "tensor.jump") super.set("tensor_cursor", facts.at as number[]);
        end();
      }
    });
  }

  dispose(): void {
    this.asking?.abort();
    this.closer.drop();
    this.pointed.drop();
  }

  private ask<T>(what: string, query: Query, signal?: AbortSignal): Promise<T> {
    const { served, path } = this.about;
    const shown = Object.fromEntries(Object.entries(ASKED).map(([key, trait]) => [key, asText(this.get(trait))]));
    return served.get<T>(what, { path, name: this.name, ...shown, ...query }, signal);
  }

  /** Reads another slice; one that is asked for meanwhile takes its place. */
  private async show(index: string): Promise<void> {
    this.dispose();
    const { signal } = (this.asking = new AbortController());
    try {
      this.told = await this.ask<TensorTold>("tensor", { index }, signal);
      super.set("message", "");
      super.set("tensor_index", String(this.told.state.tensor_index ?? index));
      this.tell([{ content: { kind: "tensor.fits" }, buffers: [] }, ...this.told.messages]);
    } catch (error) {
      if (error instanceof Refused && error.status === 400) this.tell([{ content: { kind: "tensor.problem", text: said(error), at: 0, length: index.length }, buffers: [] }]);
      else if (!isAbort(error)) super.set("message", said(error));
    }
  }

  /** Reads a part of the picture for its own sake: finer cells, or each value. */
  private async look({ view, serial, window }: Record<string, unknown>): Promise<void> {
    const { part, buffers = [] } = (await this.ofShown<WindowTold>("window", { window: String(window) })) ?? {};
    if (part) this.tell([{ content: { kind: "tensor.window", view, serial, part }, buffers }]);
  }

  /** Reads the value that is pointed at. */
  private async point({ view, at }: Record<string, unknown>): Promise<void> {
    const told = await this.ofShown<ElementTold>("element", { at: String(at) });
    if (told) this.tell([{ content: { kind: "tensor.value", view, at, where: told.where, text: told.text }, buffers: [] }]);
  }

  /** What the server says about the slice that is shown; nothing where another one has taken its place. */
  private async ofShown<T>(what: string, query: Query): Promise<T | undefined> {
    const { told } = this;
    try {
      const answer = await this.ask<T>(what, { index: this.index, scope: undefined, ...query });
      if (told !== this.told) return undefined;
      super.set("message", "");
      return answer;
    } catch (error) {
      if (told === this.told) super.set("message", said(error));
      return undefined;
    }
  }

  /** The slice that is shown: of a large one, planes may be left out. */
  private get index(): string {
    return (this.told.messages[0].content as { index: string }).index;
  }
}

function said(error: unknown): string {
  return [String((error as Error).message), error instanceof Refused ? error.need : ""].filter(Boolean).join(": ");
}

function asText(value: unknown): string | undefined {
  if (Array.isArray(value)) return value.length ? value.join() : undefined;
  return typeof value === "boolean" ? String(Number(value)) : value === undefined ? undefined : String(value);
}
