// The parts of the anywidget front-end module contract (AFM) that the widgets use.

export interface Model {
  get(key: string): unknown;
  set(key: string, value: unknown): void;
  save_changes(): void;
  send(content: unknown, callbacks?: unknown, buffers?: ArrayBuffer[]): void;
  on(event: string, callback: (...args: never[]) => void): void;
  off(event: string, callback: (...args: never[]) => void): void;
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
