// The parts of the anywidget front-end module contract (AFM) that the widgets use.

import type { Request, Told, Traits } from "./contract";

/** Names of the traits that hold a `T`. */
export type Named<T> = { [K in keyof Traits]: Traits[K] extends T ? K : never }[keyof Traits];

/** A request to the kernel; one with an `id` is a person's, and is answered. */
export type Question = { kind: Request; id?: number } & Record<string, unknown>;

/** What the kernel tells; a panel reads the rest as its own kind of message. */
export interface Message {
  kind: Told;
  id?: number;
}

/** What a model tells its views. */
export type ModelEvent = `change:${keyof Traits}` | "msg:custom" | "comm_live_update";

export interface Model {
  get<K extends keyof Traits>(key: K): Traits[K];
  set<K extends keyof Traits>(key: K, value: Traits[K]): void;
  save_changes(): void;
  send(content: Question): void;
  on(event: ModelEvent, callback: (...args: never[]) => void): void;
  off(event: ModelEvent, callback: (...args: never[]) => void): void;
}

/** Whether the widget is shown from a file, without a kernel that could do anything. */
export function isSaved(model: Model): boolean {
  return "saved" in model;
}

export interface RenderContext {
  model: Model;
  el: HTMLElement;
}

export interface Widget {
  initialize?(context: { model: Model }): void | (() => void);
  render(context: RenderContext): void | (() => void);
}

/** Collects what has to be undone when a view goes away. */
export class Cleanup {
  private readonly tasks: (() => void)[] = [];

  add(task: () => void): void {
    this.tasks.push(task);
  }

  /** Subscribes to a model event, or to a DOM event below. */
  model(model: Model, event: ModelEvent, callback: (...args: never[]) => void): void {
    model.on(event, callback);
    this.add(() => model.off(event, callback));
  }

  dom<K extends keyof HTMLElementEventMap>(
    target: HTMLElement, event: K, callback: (event: HTMLElementEventMap[K]) => void, options?: AddEventListenerOptions,
  ): void {
    target.addEventListener(event, callback, options);
    this.add(() => target.removeEventListener(event, callback, options));
  }

  run(): void {
    for (let task = this.tasks.pop(); task; task = this.tasks.pop()) task();
  }
}

/** Sets a trait and tells the kernel. */
export function commit<K extends keyof Traits>(model: Model, key: K, value: Traits[K]): void {
  model.set(key, value);
  model.save_changes();
}

const PATIENCE = 2000; // ms; a kernel that can hear answers within 50
const unheard = new WeakMap<Model, Set<number>>();
let requests = 0;

/**
 * Asks the kernel to do something, `{kind: "panel.verb", id, ...facts}`. It answers `heard` at once, and `done` or `refused`
 * when it is through; `ended` is called then. A kernel that runs a cell and has no subshells hears it only when the cell
 * ends; the shell says so while there is no answer.
 */
export function ask(model: Model, kind: Request, facts: Record<string, unknown> = {}, ended: () => void = () => undefined): void {
  const id = ++requests;
  const waiting = unheard.get(model) ?? new Set();
  unheard.set(model, waiting);
  const settle = (): void => {
    clearTimeout(timer);
    if (waiting.delete(id)) listeners.get(model)?.forEach((listener) => listener());
  };
  const onAnswer = (content: Message): void => {
    if (content.id !== id) return;
    settle();
    if (content.kind === "heard") return;
    model.off("msg:custom", onAnswer);
    ended();
  };
  const timer = setTimeout(() => {
    waiting.add(id);
    listeners.get(model)?.forEach((listener) => listener());
  }, PATIENCE);
  model.on("msg:custom", onAnswer);
  try {
    model.send({ kind, id, ...facts });
  } catch {
    // The kernel's side is gone; nobody will answer, and the shell will say so.
  }
}

const listeners = new WeakMap<Model, Set<() => void>>();

/** Calls back when requests begin to wait for a busy kernel, and when it has heard them. */
export function onWaiting(model: Model, listener: () => void): () => void {
  const known = listeners.get(model) ?? new Set();
  listeners.set(model, known);
  known.add(listener);
  return () => known.delete(listener);
}

/** How many requests the kernel has not heard yet, though it had the time. */
export function waitingRequests(model: Model): number {
  return unheard.get(model)?.size ?? 0;
}
