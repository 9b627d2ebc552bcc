// The views that are pinned to the panel: widgets of the kernel, rendered as an output of the notebook would be.

import type { IRenderMimeRegistry } from "@jupyterlab/rendermime";
import { closeIcon, ToolbarButton } from "@jupyterlab/ui-components";
import { Panel, Widget } from "@lumino/widgets";
import type { Words } from "../viewer/served";
import type { Link } from "./link";
import type { Told, View } from "./told";

export const MIME = "application/vnd.jupyter.widget-view+json";

/** One view under a head with its title; another widget may take its place, as when a cell has run again. */
class Pinned extends Panel {
  shown: View | undefined;
  private body: Widget | undefined;
  private readonly label = document.createElement("strong");
  private readonly kind = document.createElement("span");

  constructor(private readonly rendermime: IRenderMimeRegistry, words: Words, close: () => void) {
    super();
    this.addClass("gw-side-pin");
    const head = new Panel();
    head.addClass("gw-side-pin-head");
    const title = new Widget();
    title.addClass("gw-side-pin-title");
    this.kind.className = "gw-side-quiet";
    title.node.append(this.label, " ", this.kind);
    head.addWidget(title);
    head.addWidget(new ToolbarButton({ icon: closeIcon, tooltip: words("Unpin this view"), onClick: close }));
    this.addWidget(head);
  }

  async bring(view: View, kind: string): Promise<void> {
    this.shown = view;
    this.label.textContent = this.label.title = view.title;
    this.kind.textContent = kind;
    this.node.dataset.model = view.model;
    const model = this.rendermime.createModel({ data: { [MIME]: { model_id: view.model, version_major: 2, version_minor: 0 } }, trusted: true });
    const body = this.rendermime.createRenderer(MIME);
    const before = this.body;
    this.body = body;
    this.addWidget(body);
    await body.renderModel(model);
    before?.dispose();
  }
}

/** Views that the panel opens itself, and where what they show is told. */
const OF: Record<string, keyof Omit<Told, "cells">> = {
  graph: "graphs", parameters: "graphs", text: "graphs", training: "trainings", curves: "trainings", stepper: "steppers", check: "checks", runs: "runs",
};

/**
 * The views of one notebook. They outlive cells that run again, and the kernel: then they are still, until the next one has
 * something of that name.
 */
export class Views extends Panel {
  private readonly known = new Map<string, Pinned>();
  private stale: string[] = [];

  constructor(private readonly link: Link, private readonly rendermime: IRenderMimeRegistry, private readonly words: Words) {
    super();
    this.addClass("gw-side-pins");
    link.viewed.connect((_, view) => void this.bring(view));
    link.changed.connect((_, what) => {
      if (what === "gone" && link.gone) this.age();
      else if (what !== "cells" && what !== "curves") this.revive();
    });
  }

  async bring(view: View): Promise<void> {
    if (!this.rendermime.mimeTypes.includes(MIME)) {
      throw new Error(this.words("JupyterLab's extension for widgets is missing: pip install jupyterlab_widgets"));
    }
    let pinned = this.known.get(view.pin);
    if (!pinned) {
      const made: Pinned = new Pinned(this.rendermime, this.words, () => this.unpin(made));
      pinned = made;
      this.known.set(view.pin, pinned);
      this.addWidget(pinned);
    }
    await pinned.bring(view, this.words(view.view));
    pinned.node.scrollIntoView({ block: "nearest" });
  }

  /** The kernel is gone: the next one counts its views from one again. */
  private age(): void {
    const held = [...this.known.values()];
    this.known.clear();
    held.forEach((pinned, k) => this.known.set(`gone ${k}`, pinned));
    this.stale = [...this.known.keys()];
  }

  /** Opens anew what a kernel before this one has shown, as soon as there is something of that name. */
  private revive(): void {
    for (const pin of this.stale) {
      const pinned = this.known.get(pin);
      const { view, key } = pinned?.shown ?? { view: "", key: "" };
      const rows: readonly { key: string }[] = view in OF ? this.link.told[OF[view]] : [];
      if (!pinned || !rows.some((row) => row.key === key)) continue;
      this.stale = this.stale.filter((other) => other !== pin);
      void this.link.ask<View>("open", { view, key }).then((again) => {
        this.known.delete(pin);
        this.known.set(again.pin, pinned);
        return this.bring(again);
      }).catch(() => undefined);
    }
  }

  /** Whether a view of a thing is among them. */
  has(view: string, key: string): boolean {
    return [...this.known.values()].some(({ shown }) => shown?.view === view && shown.key === key);
  }

  private unpin(pinned: Pinned): void {
    const pin = [...this.known].find(([, held]) => held === pinned)?.[0];
    pinned.dispose();
    if (pin === undefined) return;
    this.known.delete(pin);
    void this.link.ask("unpin", { pin }).catch(() => undefined);
  }
}
