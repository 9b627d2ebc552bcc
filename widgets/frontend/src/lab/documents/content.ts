// What a document shows: the viewer, which is loaded when the first document opens.

import { Widget } from "@lumino/widgets";
import type { Deed, Viewer } from "../viewer/viewer";
import type { About } from "../viewer/page";

export class FileView extends Widget {
  private viewer: Viewer | undefined;

  constructor(private about: About, private readonly deeds: readonly Deed[]) {
    super();
    this.addClass("gw-document");
    this.node.tabIndex = -1;
    void this.load();
  }

  /** The file is called something else now. */
  move(path: string): void {
    this.about = { ...this.about, path };
    this.viewer?.move(path);
  }

  override dispose(): void {
    this.viewer?.dispose();
    this.viewer = undefined;
    super.dispose();
  }

  private async load(): Promise<void> {
    const { Viewer } = await import("../viewer/viewer");
    if (!this.isDisposed) this.viewer = new Viewer(this.node, this.about, this.deeds);
  }
}
