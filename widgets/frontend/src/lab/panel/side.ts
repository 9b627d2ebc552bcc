// The side panel: what is alive in the active notebook's kernel, its last error, and the views that are pinned.

import type { NotebookPanel } from "@jupyterlab/notebook";
import { Panel, Widget } from "@lumino/widgets";
import { Cleanup } from "../../core/afm";
import { element, example } from "../../core/dom";
import { addStyle, styleSheet } from "../../core/style";
import { themeOf } from "../../core/theme";
import { markIcon } from "../icons";
import type { Words } from "../viewer/served";
import { FailureCard } from "./failure";
import type { Link } from "./link";
import css from "./panel.css";
import { checkRow, graphRow, RowList, runRow, stepperRow, trainingRow, type Deeds } from "./rows";
import { NOTHING, type Place, type Told, type View } from "./told";
import { Views } from "./views";

addStyle(css);

const FIRST = `import gradwright as gw
g = gw.Graph("first")`;

type Section = "graphs" | "trainings" | "steppers" | "checks" | "runs";

/** What the panel needs of the page around it. */
export interface Around {
  words: Words;
  go(notebook: NotebookPanel, place: Place): void;
  compare(folder: string): void;
}

/** A notebook that is followed. */
interface Followed {
  notebook: NotebookPanel;
  link: Link;
  views: Views;
}

export class SidePanel extends Panel {
  private readonly cleanup = new Cleanup();
  private readonly followed = new Map<NotebookPanel, Followed>();
  private current: Followed | undefined;
  private readonly heading = element("h2", { class: "gw-title" });
  private readonly notice = element("div", { class: "gw-message gw-notice", role: "status", hidden: true });
  private readonly trouble = element("div", { class: "gw-message", role: "alert", hidden: true });
  private readonly empty = element("div", { class: "gw-side-empty" });
  private readonly failure: FailureCard;
  private readonly lists: { [K in Section]: RowList<Told[K][number]> };
  private frame = 0;

  constructor(private readonly around: Around) {
    super();
    const { words } = around;
    this.id = "gradwright-panel";
    this.addClass("gw-side");
    this.node.style.minWidth = "320px"; // set before a style sheet is there: JupyterLab measures when it adds it
    this.title.icon = markIcon;
    this.title.caption = words("gradwright: graphs, trainings, checks and runs of the notebook");
    this.node.tabIndex = -1;
    this.node.setAttribute("aria-label", words("gradwright"));
    this.node.setAttribute("role", "region");
    const deeds: Deeds = {
      open: (view, key) => void this.open(view, key),
      tell: (kind, key) => void this.tried(this.current?.link.ask(kind, { key })),
      compare: (folder) => around.compare(folder),
      alive: () => !this.current?.link.gone,
    };
    this.failure = new FailureCard(words, (place) => this.current && around.go(this.current.notebook, place), () => this.current?.link.fail(null));
    this.lists = {
      graphs: new RowList(words("Graphs"), (row) => graphRow(row, words, deeds)),
      trainings: new RowList(words("Trainings"), (row) => trainingRow(row, words, deeds, (key) => this.current?.link.curves.get(key))),
      steppers: new RowList(words("Steppers"), (row) => stepperRow(row, words, deeds)),
      checks: new RowList(words("Checks"), (row) => checkRow(row, words, deeds)),
      runs: new RowList(words("Runs"), (row) => runRow(row, words, deeds)),
    };
    const top = new Widget();
    top.addClass("gw-side-top");
    const root = element(
      "div", { class: "gw gw-side-root" }, element("style", {}, styleSheet()),
      element("div", { class: "gw-toolbar" }, this.heading), this.notice, this.trouble, this.failure.root,
      ...Object.values(this.lists).map(({ root: section }) => section), this.empty,
    );
    top.node.append(root);
    this.addWidget(top);
    const theme = themeOf(root, this.cleanup, () => void theme());
    const placed = new ResizeObserver(() => void theme());
    placed.observe(root);
    this.cleanup.add(() => placed.disconnect());
    this.draw(true);
  }

  override dispose(): void {
    this.cleanup.run();
    super.dispose();
  }

  /** Whoever opens it by key goes on inside; the palette gives the focus back to where it was, and that comes after this. */
  protected override onActivateRequest(): void {
    requestAnimationFrame(() => this.node.contains(document.activeElement) || this.node.focus());
  }

  /** Takes a notebook among those that may be shown. */
  add(notebook: NotebookPanel, link: Link): void {
    const views = new Views(link, notebook.content.rendermime, this.around.words);
    const one = { notebook, link, views };
    this.followed.set(notebook, one);
    views.hide();
    this.addWidget(views);
    link.changed.connect((_, what) => this.current === one && this.request(what === "gone"));
    notebook.disposed.connect(() => {
      this.followed.delete(notebook);
      views.dispose();
      if (this.current === one) this.follow(null);
    });
  }

  /** Shows a notebook; null for none. */
  follow(notebook: NotebookPanel | null): void {
    const next = notebook ? this.followed.get(notebook) : undefined;
    if (next === this.current && next) return;
    this.current?.views.hide();
    this.current = next;
    next?.views.show();
    this.trouble.hidden = true;
    this.clear();
    this.draw(true);
  }

  get link(): Link | undefined {
    return this.current?.link;
  }

  /** Whether a view of a thing of the notebook is pinned. */
  shows(view: string, key: string): boolean {
    return this.current?.views.has(view, key) ?? false;
  }

  /** Opens a view of a thing of the notebook that is shown. */
  async open(view: string, key: string): Promise<void> {
    await this.tried(this.current?.link.ask<View>("open", { view, key }));
  }

  /** Pins a widget of a notebook. */
  async pin(notebook: NotebookPanel, model: string): Promise<void> {
    this.follow(notebook);
    await this.tried(this.current?.link.ask<View>("pin", { model }));
  }

  showFailure(): void {
    this.failure.root.scrollIntoView({ block: "nearest" });
    requestAnimationFrame(() => this.failure.root.focus()); // after the panel itself
  }

  /** Waits for an answer: a view is shown, an error is told. */
  private async tried(asked: Promise<unknown> | undefined): Promise<void> {
    const { current } = this;
    this.trouble.hidden = true;
    try {
      const answer = (await asked) as Partial<View> | undefined;
      if (answer?.model && current) await current.views.bring(answer as View);
    } catch (error) {
      this.trouble.textContent = error instanceof Error ? error.message : String(error);
      this.trouble.hidden = false;
    }
  }

  private request(whole: boolean): void {
    if (whole) this.clear();
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.draw(false);
    });
  }

  private clear(): void {
    for (const list of Object.values(this.lists)) list.clear();
  }

  private draw(anew: boolean): void {
    const { words } = this.around;
    const { current } = this;
    const link = current?.link;
    this.heading.textContent = current ? current.notebook.title.label : words("No notebook");
    const gone = link?.gone ?? "";
    this.notice.hidden = !gone || !(link?.heard || link?.failure);
    this.notice.textContent = gone === "restarted" ? words("The kernel was restarted. This is what it had told before; run the cells again to have it live.") : words("The kernel has ended. This is what it had told; nothing of it is live any more.");
    if (anew) this.node.scrollTop = 0;
    this.failure.show(link?.failure ?? null);
    const { lists } = this;
    const told = link?.told ?? NOTHING;
    lists.graphs.update(told.graphs);
    lists.trainings.update(told.trainings);
    lists.steppers.update(told.steppers);
    lists.checks.update(told.checks);
    lists.runs.update(told.runs);
    this.empty.hidden = Boolean(link?.heard || link?.failure);
    this.empty.replaceChildren(
      element("p", {}, current ? words("Nothing of gradwright is alive in this notebook yet. A graph appears here as soon as its cell has run.") : words("Open a notebook: its graphs, trainings, checks and runs appear here, live.")),
      ...(current ? [example(FIRST)] : []),
    );
    this.node.dataset.notebook = current?.notebook.context.path ?? "";
  }
}
