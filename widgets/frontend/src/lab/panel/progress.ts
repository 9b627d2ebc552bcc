// How far trainings are, outside of the panel: in the status bar, in the titles of tab and page, and as notifications.

import { Notification } from "@jupyterlab/apputils";
import type { NotebookPanel } from "@jupyterlab/notebook";
import { Signal } from "@lumino/signaling";
import { Widget } from "@lumino/widgets";
import { compact, grouped } from "../../core/format";
import type { Words } from "../viewer/served";
import type { Link } from "./link";
import { progressText, stateOf } from "./rows";
import { BEFORE, foremost, markOf, type TrainingRow } from "./told";

/** What the settings say. */
export interface Wishes {
  marks: boolean;
  titles: boolean;
  ended: boolean;
  trouble: boolean;
  seconds: number;
}

const PROGRESS = "gw-progress"; // of a tab: `data-gw-progress`

/** The item of the status bar; a click opens the panel. */
export class StatusItem extends Widget {
  readonly changed = new Signal<this, void>(this);
  private readonly button = document.createElement("button");

  constructor(private readonly words: Words, open: () => void) {
    super();
    this.addClass("gw-status-item");
    this.button.type = "button";
    this.button.title = words("Show gradwright's panel");
    this.button.addEventListener("click", open);
    this.node.append(this.button);
  }

  /** Whether there is something to tell; the status bar asks. */
  get active(): boolean {
    return Boolean(this.button.textContent);
  }

  /** Shows how far the trainings of a notebook are; nothing where there is none. */
  tell(link: Link | undefined): void {
    const text = link ? this.text(link) : "";
    if (this.button.textContent === text) return;
    this.button.textContent = text;
    this.changed.emit();
  }

  private text({ told, gone }: Link): string {
    if (gone) return "";
    const training = foremost(told.trainings);
    const standing = told.steppers.filter(({ at }) => at).at(-1);
    const stands = standing ? `${this.words("paused at")} ${standing.at}` : "";
    if (!training) return stands;
    const state = stateOf(training);
    return [state === "running" ? "" : this.words(state), progressText(training), training.status === "running" ? "" : stands].filter(Boolean).join(" · ");
  }
}

/**
 * Puts how far a notebook's training is on its tab, and before the title of the page while it is in front. A tab's label is
 * left alone: JupyterLab renames the file after it.
 */
export class Titles {
  constructor(private readonly inFront: () => NotebookPanel | null, private readonly wishes: () => Wishes) {}

  update(notebook: NotebookPanel, link: Link): void {
    const mark = this.markOf(link);
    const { title } = notebook;
    const { [PROGRESS]: before = "", ...others } = title.dataset;
    if (before !== mark) title.dataset = mark ? { ...others, [PROGRESS]: mark } : others;
    if (this.inFront() === notebook) this.page(mark);
  }

  /** Another tab is in front. */
  turn(link: Link | undefined): void {
    this.page(link ? this.markOf(link) : "");
  }

  private markOf({ told, gone }: Link): string {
    return this.wishes().titles && !gone ? markOf(foremost(told.trainings)) : "";
  }

  private page(mark: string): void {
    const text = (mark && `${mark} `) + document.title.replace(BEFORE, "");
    if (document.title !== text) document.title = text;
  }
}

/** Says when a training has ended, and when something in it is not finite, each once. */
export class Notices {
  private readonly began = new Map<string, number>();
  private readonly skipped = new Map<string, number>();
  private readonly troubled = new Set<string>();

  constructor(private readonly words: Words, private readonly wishes: () => Wishes, private readonly open: () => void) {}

  update(notebook: string, rows: readonly TrainingRow[]): void {
    for (const row of rows) {
      const { key } = row;
      if (row.status !== "idle") {
        if (!this.began.has(key)) {
          this.began.set(key, Date.now());
          this.troubled.delete(key);
        }
        this.troubles(notebook, row);
        continue;
      }
      const since = this.began.get(key);
      if (since === undefined) {
        this.skipped.set(key, row.skipped);
        continue;
      }
      this.began.delete(key);
      this.troubles(notebook, row);
      this.ends(notebook, row, (Date.now() - since) / 1000);
    }
  }

  private troubles(notebook: string, row: TrainingRow): void {
    const more = row.skipped > (this.skipped.get(row.key) ?? 0);
    this.skipped.set(row.key, row.skipped);
    const bad = row.step > 0 && !Number.isFinite(Number(row.loss));
    if (!(bad || more) || this.troubled.has(row.key) || !this.wishes().trouble) return;
    this.troubled.add(row.key);
    const what = bad ? `${this.words("the loss is")} ${compact(Number(row.loss))}` : this.words("an update was skipped, since it is not finite");
    this.tell("warning", `${row.name} (${notebook}): ${what}, ${this.words("step")} ${grouped(row.step)}`, false);
  }

  private ends(notebook: string, row: TrainingRow, seconds: number): void {
    const { ended, trouble, seconds: least } = this.wishes();
    const failed = row.outcome === "failed";
    if (failed ? !trouble : !ended || seconds < least) return;
    const loss = row.step ? `, ${this.words("loss")} ${compact(Number(row.loss))}` : "";
    const why = failed || row.outcome === "stopped" ? `: ${row.reason.split("\n")[0] ?? ""}` : "";
    const kind = failed ? "error" : row.outcome === "finished" ? "success" : "info";
    this.tell(kind, `${row.name} (${notebook}): ${this.words(row.outcome)} ${this.words("after")} ${grouped(row.step)} ${this.words("steps")}${loss}${why}`, !failed && 8000);
  }

  private tell(kind: "warning" | "error" | "success" | "info", text: string, autoClose: number | false): void {
    Notification.emit(text, kind, { autoClose, actions: [{ label: this.words("Show"), callback: this.open }] });
  }
}
