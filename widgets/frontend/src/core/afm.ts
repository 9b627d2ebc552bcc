// The parts of the anywidget front-end module contract (AFM) that the widgets use.

export interface Model {
  get(key: string): unknown;
  set(key: string, value: unknown): void;
  save_changes(): void;
  send(content: unknown, callbacks?: unknown, buffers?: ArrayBuffer[]): void;
  on(event: string, callback: (...args: never[]) => void): void;
  off(event: string, callback: (...args: never[]) => void): void;
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
  model(model: Model, event: string, callback: (...args: never[]) => void): void {
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
export function commit(model: Model, key: string, value: unknown): void {
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
export function ask(model: Model, kind: string, facts: Record<string, unknown> = {}, ended: () => void = () => undefined): void {
  const id = ++requests;
  const waiting = unheard.get(model) ?? new Set();
  unheard.set(model, waiting);
  const settle = (): void => {
    clearTimeout(timer);
    if (waiting.delete(id)) listeners.get(model)?.forEach((listener) => listener());
  };
  const onAnswer = (content: { kind?: string; id?: number }): void => {
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
