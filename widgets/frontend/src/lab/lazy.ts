// Parts of the extension that are loaded when they are first shown, and what is said where they are not there any more: after
// an upgrade, a page from before it asks for files of the old one.

import { Notification } from "@jupyterlab/apputils";
import { Widget } from "@lumino/widgets";
import { Cleanup } from "../core/afm";
import { action, element } from "../core/dom";
import { frameOf } from "./viewer/frame";
import { problem } from "./viewer/problem";
import { Refused, type Words } from "./viewer/served";

const reload = (): void => window.location.reload();

/** Loads a part: `() => import(...)`. Raises a `Refused` that says what to do. */
export async function part<T>(load: () => Promise<T>, words: Words): Promise<T> {
  try {
    return await load();
  } catch (error) {
    throw new Refused(
      words("A part of gradwright cannot be loaded"), 0, "", [String((error as Error).message).split("\n")[0]], "",
      words("Reload the page: gradwright may have been upgraded since it was opened."), "stale",
    );
  }
}

/** Says outside of any tab that a part cannot be loaded. */
export function tellStale(error: unknown, words: Words): void {
  const { message, hint } = error as Refused;
  Notification.error(`${message}. ${hint}`, { autoClose: false, actions: [{ label: words("Reload the page"), callback: reload }] });
}

/** What is in a tab, loaded apart from the extension. */
export abstract class Lazy extends Widget {
  private undo: () => void = () => undefined;

  constructor(private readonly words: Words) {
    super();
    this.addClass("gw-document");
    this.node.tabIndex = -1;
    this.node.style.height = "100%";
    queueMicrotask(() => void this.load()); // a widget's own fields come after those of its base
  }

  override dispose(): void {
    this.undo();
    this.undo = () => undefined;
    super.dispose();
  }

  /** Loads what fills the node; it is called then, and returns what takes it down again. */
  protected abstract fill(): Promise<(node: HTMLElement) => () => void>;

  private async load(): Promise<void> {
    let mount: (node: HTMLElement) => () => void;
    try {
      mount = await part(() => this.fill(), this.words);
    } catch (error) {
      mount = (node) => this.fail(node, error);
    }
    if (!this.isDisposed) this.undo = mount(this.node);
  }

  private fail(node: HTMLElement, error: unknown): () => void {
    const cleanup = new Cleanup();
    const { head, body } = frameOf(node, cleanup);
    head.remove();
    const again = (): void => {
      cleanup.run();
      void this.load();
    };
    const said = problem(error, this.words);
    said.append(element("div", { class: "gw-deeds" }, action(this.words("Reload the page"), reload, true), action(this.words("Try again"), again)));
    body.append(said);
    return () => cleanup.run();
  }
}
