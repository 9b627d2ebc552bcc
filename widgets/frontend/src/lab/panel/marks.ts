// Marks in the margins of cells: how many nodes each has built. A click shows which.

import type { Cell } from "@jupyterlab/cells";
import type { NotebookPanel } from "@jupyterlab/notebook";
import { element } from "../../core/dom";
import { counted } from "../../core/format";
import type { Words } from "../viewer/served";
import type { Link } from "./link";

export class Marks {
  private readonly watched = new WeakSet<Cell>();
  private on = true;

  constructor(private readonly notebook: NotebookPanel, private readonly link: Link, private readonly words: Words, private readonly select: (cell: string, graph: string) => void) {
    link.changed.connect((_, what) => {
      if (what === "cells") this.update();
    });
    notebook.content.modelContentChanged.connect(() => this.update());
  }

  /** Shows them or not. */
  show(on: boolean): void {
    this.on = on;
    this.update();
  }

  update(): void {
    if (this.notebook.isDisposed) return;
    for (const cell of this.notebook.content.widgets) {
      if (!this.watched.has(cell)) {
        this.watched.add(cell);
        cell.inViewportChanged.connect(() => this.mark(cell)); // a windowed notebook builds cells when they are near
      }
      this.mark(cell);
    }
  }

  private mark(cell: Cell): void {
    const wrapper = cell.node.querySelector<HTMLElement>(".jp-Cell-inputWrapper");
    if (!wrapper) return;
    const known = wrapper.querySelector<HTMLButtonElement>(":scope > .gw-cell-mark");
    const graphs = this.on ? (this.link.told.cells[cell.model.id] ?? {}) : {};
    const [graph] = Object.keys(graphs);
    if (graph === undefined) {
      known?.remove();
      cell.node.classList.remove("gw-marked");
      return;
    }
    const count = Object.values(graphs).reduce((sum, n) => sum + n, 0);
    const mark = known ?? element("button", { type: "button", class: "gw-cell-mark" });
    mark.textContent = counted(count, "node");
    mark.title = `${this.words("This cell has built")} ${Object.entries(graphs).map(([name, n]) => `${counted(n, "node")} · ${name}`).join(", ")}`;
    mark.onclick = () => this.select(cell.model.id, graph);
    cell.node.classList.add("gw-marked");
    if (!known) wrapper.append(mark);
  }
}
