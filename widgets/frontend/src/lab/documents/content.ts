// What documents show: the viewer and the comparison, which are loaded when the first document opens.

import { Lazy } from "../lazy";
import type { Deed, Habits, Viewer } from "../viewer/viewer";
import type { About } from "../viewer/page";

/** What a view is made with; called when it is, for a widget's own constructor comes before its fields. */
export interface Given {
  about: About;
  deeds: () => readonly Deed[];
  habits: () => Habits;
}

export class FileView extends Lazy {
  private viewer: Viewer | undefined;

  constructor(private readonly given: Given) {
    super(given.about.words);
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

  protected override async fill(): Promise<(node: HTMLElement) => () => void> {
    const { Viewer } = await import("../viewer/viewer");
    return (node) => {
      const { about, deeds, habits } = this.given;
      const viewer = (this.viewer = new Viewer(node, about, deeds, habits));
      return () => viewer.dispose();
    };
  }
}

export class ComparisonView extends Lazy {
  constructor(private readonly about: Omit<About, "path">, readonly a: string, readonly b: string) {
    super(about.words);
  }

  protected override async fill(): Promise<(node: HTMLElement) => () => void> {
    const { mountComparison } = await import("../viewer/comparison");
    return (node) => mountComparison(node, this.about, this.a, this.b);
  }
}
