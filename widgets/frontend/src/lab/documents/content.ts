// What documents show: the viewer and the comparison, which are loaded when the first document opens.

import { Widget } from "@lumino/widgets";
import type { Deed, Habits, Viewer } from "../viewer/viewer";
import type { About } from "../viewer/page";

/** What is in a tab, loaded apart from the extension. */
abstract class Lazy extends Widget {
  private undo: (() => void) | undefined;

  constructor() {
    super();
    this.addClass("gw-document");
    this.node.tabIndex = -1;
    this.node.style.height = "100%";
    void this.fill().then((undo) => {
      if (this.isDisposed) undo();
      else this.undo = undo;
    });
  }

  override dispose(): void {
    this.undo?.();
    this.undo = undefined;
    super.dispose();
  }

  /** Fills the node, and returns what takes it down again. */
  protected abstract fill(): Promise<() => void>;
}

/** What a view is made with; called when it is, for a widget's own constructor comes before its fields. */
export interface Given {
  about: About;
  deeds: () => readonly Deed[];
  habits: () => Habits;
}

export class FileView extends Lazy {
  private viewer: Viewer | undefined;

  constructor(private readonly given: Given) {
    super();
  }

  get path(): string {
    return this.given.about.path;
  }

  /** The file is called something else now. */
  move(path: string): void {
    this.given.about = { ...this.given.about, path };
    this.viewer?.move(path);
  }

  reload(): void {
    this.viewer?.reload();
  }

  /** Does what a button in the head does. */
  act(name: Deed["name"]): void {
    this.viewer?.act(name);
  }

  protected override async fill(): Promise<() => void> {
    const { Viewer } = await import("../viewer/viewer");
    const { about, deeds, habits } = this.given;
    const viewer = (this.viewer = new Viewer(this.node, about, deeds, habits));
    return () => viewer.dispose();
  }
}

export class ComparisonView extends Lazy {
  constructor(private readonly about: Omit<About, "path">, readonly a: string, readonly b: string) {
    super();
  }

  protected override async fill(): Promise<() => void> {
    const { mountComparison } = await import("../viewer/comparison");
    return mountComparison(this.node, this.about, this.a, this.b);
  }
}
