// A model's file as a document: its drawing, its tensors, and what it says of itself, each behind a tab.

import { Cleanup } from "../../core/afm";
import { element, textButton } from "../../core/dom";
import { bytesText, grouped } from "../../core/format";
import { tabStrip, type TabStrip } from "../../core/tabs";
import { fillAbout } from "./about";
import { fillCurves } from "./curves";
import { fillDrawing } from "./drawing";
import type { DrawingModel } from "./drawing_model";
import { frameOf } from "./frame";
import { fillMemory } from "./memory";
import { Page, type About, type Fill } from "./page";
import { isAbort, isAway, isDamage, problem } from "./problem";
import type { Formats, Inspected, Stamp } from "./served";
import { fillTensors } from "./tensors";
import { fillUnknown } from "./unknown";

const WATCH = 3000; // ms between two looks at whether the file has changed

/** A button of the host's in the head of a document. */
export interface Deed {
  name: string;
  label: string;
  run(told: Inspected): void;
}

/** How a document behaves, as its reader wants it. */
export interface Habits {
  /** Whether a file that has changed on disk is read again. */
  watch: boolean;
  /** The tab that is in front at first. */
  first: PageName;
}

export type PageName = "drawing" | "tensors" | "about";

const RUN = "run"; // the format of a training's folder

/** Whether a run has only gone on: its curves grow by themselves, and what else is shown stays as it is. */
function isGrown(before: Inspected, now: Inspected): boolean {
  return now.format === RUN && before.path === now.path && before.count === now.count;
}

export class Viewer {
  private readonly cleanup = new Cleanup();
  private readonly root: HTMLElement;
  private readonly body: HTMLElement;
  private readonly title = element("h2", { class: "gw-title" });
  private readonly subtitle = element("span", { class: "gw-subtitle" });
  private readonly buttons = element("span", { class: "gw-deeds" });
  private readonly notice = element("div", { class: "gw-message gw-notice", role: "status", hidden: true });
  private asking = new AbortController();
  private pages: { name: string; page: Page }[] = [];
  private strip: TabStrip | undefined;
  private chosen = "";
  private stamp = "";
  private told: Inspected | undefined;
  private graph: DrawingModel | undefined;

  constructor(host: HTMLElement, private about: About, private readonly deeds: () => readonly Deed[], private readonly habits: () => Habits) {
    const { root, head, body } = frameOf(host, this.cleanup);
    [this.root, this.body] = [root, body];
    head.append(this.title, this.subtitle, element("span", { class: "gw-space" }), this.buttons);
    root.insertBefore(this.notice, body);
    const timer = setInterval(() => void this.watch(), WATCH);
    this.cleanup.add(() => clearInterval(timer));
    void this.load();
  }

  /** Shows the file under the name that it has now. */
  move(path: string): void {
    this.about = { ...this.about, path };
    void this.load();
  }

  /** Reads the file anew. */
  reload(): void {
    void this.load();
  }

  /** Does what a button in the head does. */
  act(name: string): void {
    if (this.told) this.deeds().find((deed) => deed.name === name)?.run(this.told);
  }

  dispose(): void {
    this.asking.abort();
    for (const { page } of this.pages) page.clear();
    this.cleanup.run();
  }

  private choose(name: string): void {
    this.chosen = name;
    const at = Math.max(0, this.pages.findIndex((page) => page.name === name));
    this.strip?.show(at);
    this.pages[at]?.page.show();
  }

  private async load(): Promise<void> {
    this.asking.abort();
    const { signal } = (this.asking = new AbortController());
    const { served, path } = this.about;
    let seen: Stamp | undefined;
    this.title.textContent = this.title.title = path.slice(path.lastIndexOf("/") + 1);
    if (!this.told) this.body.replaceChildren(element("div", { class: "gw-wait", role: "status" }, this.about.words("Reading …")));
    try {
      seen = await served.get<Stamp>("stamp", { path }, signal);
      this.stamp = seen.stamp;
      const [told, { formats }] = await Promise.all([
        served.get<Inspected>("inspect", { path }, signal), served.get<Formats>("formats", {}, signal),
      ]);
      this.stamp = told.stamp;
      this.notice.hidden = true;
      const grown = this.told !== undefined && isGrown(this.told, told);
      this.told = told;
      if (!grown) this.build(told, formats.some(({ name, graph }) => name === told.format && graph));
    } catch (error) {
      if (isAbort(error)) return;
      if (this.told && isAway(error)) this.say(error);
      else await this.fail(error, seen, signal);
    }
  }

  private build(told: Inspected, graph: boolean): void {
    const { words } = this.about;
    const { info, count } = told;
    const unknown = Object.keys(info.unknown_ops).length;
    this.subtitle.textContent = [told.title, ...(info.parameters ? [words("%1 parameters", grouped(info.parameters))] : [])].join(" · ");
    for (const { page } of this.pages) page.clear();
    this.graph = undefined;
    const page = (name: string, title: string, fill: Fill): { name: string; page: Page } => ({ name, page: new Page(title, words, fill) });
    let wanted = ""; // a node to point at, once the drawing is there
    const drawn = (model: DrawingModel): void => {
      this.graph = model;
      if (wanted) model.point(wanted);
    };
    const point = (node: string): void => {
      wanted = node;
      this.choose("drawing");
      this.graph?.point(node);
    };
    const run = told.format === RUN;
    graph &&= !run || count > 0; // of its latest checkpoint
    this.pages = [
      ...(run ? [page("curves", words("Curves"), (host, end) => fillCurves(host, this.about, end))] : []),
      ...(graph ? [page("drawing", words("Drawing"), (host, end) => fillDrawing(host, this.about, end, drawn))] : []),
      ...(count ? [page("tensors", words("Tensors"), (host, end) => fillTensors(host, this.about, graph ? "" : "name", end))] : []),
      page("about", words("About"), (host) => fillAbout(host, this.about, told)),
      ...(unknown ? [page("unknown", words("Not supported (%1)", grouped(unknown)), (host) => fillUnknown(host, this.about, told, point))] : []),
      ...(graph ? [page("memory", words("Memory"), (host, end) => fillMemory(host, this.about, end))] : []),
    ];
    this.buttons.replaceChildren(...this.deeds().map(({ label, run }) => textButton("gw-action", label, () => run(told))));
    this.body.replaceChildren();
    this.lay();
  }

  /** What is wrong with the file, and of the rest what can be read nevertheless. */
  private async fail(error: unknown, seen: Stamp | undefined, signal: AbortSignal): Promise<void> {
    const { about, about: { words, served, path } } = this;
    for (const { page } of this.pages) page.clear();
    this.pages = [];
    this.told = undefined;
    this.subtitle.textContent = seen ? [bytesText(seen.bytes), words("changed %1", new Date(seen.modified).toLocaleString())].join(" · ") : "";
    this.buttons.replaceChildren();
    this.body.replaceChildren(problem(error, words, () => void this.load()));
    if (!seen || !isDamage(error)) return;
    const readable = async (what: string): Promise<boolean> => served.get(what, { path, n: 1 }, signal).then(() => true, () => false);
    const [tensors, drawing] = [await readable("tensors"), await readable("drawing")];
    if (signal.aborted) return;
    this.pages = [
      ...(drawing ? [{ name: "drawing", page: new Page(words("Drawing"), words, (host, end) => fillDrawing(host, about, end)) }] : []),
      ...(tensors ? [{ name: "tensors", page: new Page(words("Tensors"), words, (host, end) => fillTensors(host, about, "", end)) }] : []),
    ];
    if (this.pages.length) this.lay();
  }

  /** Puts the pages behind tabs, below what else stands in the body. */
  private lay(): void {
    const pages = this.pages.map(({ page: { title, host } }) => ({ title, page: host }));
    this.strip = tabStrip(this.about.words("Parts of the file"), pages, (at) => this.choose(this.pages[at].name));
    this.body.append(this.strip.root, ...pages.map(({ page }) => page));
    this.choose(this.chosen || (this.pages[0].name === "curves" ? "curves" : this.habits().first));
  }

  /** Says what is wrong above what was read before. */
  private say(error: unknown): void {
    this.notice.replaceChildren(problem(error, this.about.words));
    this.notice.hidden = false;
  }

  /** Reads the file anew when it is another one than what is shown, or when a server that was away is back. */
  private async watch(): Promise<void> {
    if (this.root.ownerDocument.hidden || !this.root.offsetParent || !this.habits().watch) return;
    const { signal } = this.asking;
    try {
      const now = await this.about.served.get<Stamp>("stamp", { path: this.about.path }, signal);
      this.notice.hidden = true;
      for (const { page } of this.pages) page.recover();
      if (now.stamp !== this.stamp) await this.load();
    } catch (error) {
      if (!isAbort(error) && this.told) this.say(error);
    }
  }
}
