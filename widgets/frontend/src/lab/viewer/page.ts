// A page of a document: built when it is first looked at, built anew when its file has changed.

import { element } from "../../core/dom";
import { isAbort, isAway, problem } from "./problem";
import type { Served, Words } from "./served";

/** What a page is given: whom to ask, about which file, in which language. */
export interface About {
  served: Served;
  path: string;
  words: Words;
}

/** Fills `host` and returns what takes it down again; `signal` ends with the page. */
export type Fill = (host: HTMLElement, signal: AbortSignal) => Promise<() => void> | (() => void);

export class Page {
  readonly host = element("div", { class: "gw-page" });
  private ending: AbortController | undefined;
  private undo: () => void = () => undefined;
  private lost = false; // the server went away while it was built

  constructor(readonly title: string, private readonly words: Words, private readonly fill: Fill) {}

  /** Builds the page if it is not there yet. */
  show(): void {
    if (!this.ending) void this.build();
  }

  /** The server is there: builds anew what it was not there for. */
  recover(): void {
    if (!this.lost) return;
    this.clear();
    this.show();
  }

  /** Forgets what is shown; the next `show` builds it anew. */
  clear(): void {
    this.ending?.abort();
    this.ending = undefined;
    this.lost = false;
    this.undo();
    this.undo = () => undefined;
    this.host.replaceChildren();
  }

  private async build(): Promise<void> {
    const ending = (this.ending = new AbortController());
    const wait = element("div", { class: "gw-wait", role: "status" }, this.words("Reading …"));
    this.host.replaceChildren(wait);
    try {
      const undo = await this.fill(this.host, ending.signal);
      if (ending.signal.aborted) undo();
      else this.undo = undo;
    } catch (error) {
      if (ending.signal.aborted || isAbort(error)) return;
      this.lost = isAway(error);
      this.host.replaceChildren(problem(error, this.words, () => {
        this.clear();
        this.show();
      }));
    } finally {
      wait.remove();
    }
  }
}
