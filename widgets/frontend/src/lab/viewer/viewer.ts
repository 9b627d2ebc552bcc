// A model's file as a document: its drawing, its tensors, and what it says of itself, each behind a tab.

import { Cleanup } from "../../core/afm";
import { element } from "../../core/dom";
import { bytesText } from "../../core/format";
import { styleSheet, addStyle } from "../../core/style";
import { tabStrip, type TabStrip } from "../../core/tabs";
import { themeOf } from "../../core/theme";
import { fillAbout } from "./about";
import { fillDrawing } from "./drawing";
import css from "./file.css";
import { Page, type About } from "./page";
import { isAbort, problem } from "./problem";
import type { Formats, Inspected, Stamp } from "./served";

addStyle(css);

const WATCH = 3000; // ms between two looks at whether the file has changed

/** A button of the host's in the head of a document. */
export interface Deed {
  label: string;
  run(told: Inspected): void;
}

export class Viewer {
  private readonly cleanup = new Cleanup();
  private readonly root = element("div", { class: "gw gw-file" });
  private readonly title = element("h2", { class: "gw-title" });
  private readonly subtitle = element("span", { class: "gw-subtitle" });
  private readonly deeds = element("span", { class: "gw-deeds" });
  private readonly body = element("div", { class: "gw-file-body" });
  private readonly notice = element("div", { class: "gw-message gw-notice", role: "status", hidden: true });
  private asking = new AbortController();
  private pages: Page[] = [];
  private strip: TabStrip | undefined;
  private chosen = "";
  private stamp = "";

  constructor(host: HTMLElement, private about: About, private readonly hosts: readonly Deed[]) {
    const head = element("header", { class: "gw-toolbar" }, this.title, this.subtitle, element("span", { class: "gw-space" }), this.deeds);
    this.root.append(element("style", {}, styleSheet()), head, this.notice, this.body);
    host.append(this.root);
    const theme = themeOf(this.root, this.cleanup, () => void theme());
    const placed = new ResizeObserver(() => void theme()); // the palette of the page, from the moment that it is in the page
    placed.observe(this.root);
    const timer = setInterval(() => void this.watch(), WATCH);
    this.cleanup.add(() => {
      clearInterval(timer);
      placed.disconnect();
    });
    void this.load();
  }

  /** Shows another file in place of this one, such as this one under another name. */
  move(path: string): void {
    this.about = { ...this.about, path };
    void this.load();
  }

  /** Brings a tab to the front. */
  choose(title: string): void {
    this.chosen = title;
    const at = Math.max(0, this.pages.findIndex((page) => page.title === title));
    this.strip?.show(at);
    this.pages[at]?.show();
  }

  dispose(): void {
    this.asking.abort();
    for (const page of this.pages) page.clear();
    this.cleanup.run();
    this.root.remove();
  }

  private async load(): Promise<void> {
    this.asking.abort();
    const { signal } = (this.asking = new AbortController());
    const { served, path, words } = this.about;
    this.title.textContent = this.title.title = path.slice(path.lastIndexOf("/") + 1);
    try {
      const [told, { formats }] = await Promise.all([
        served.get<Inspected>("inspect", { path }, signal), served.get<Formats>("formats", {}, signal),
      ]);
      this.stamp = told.stamp;
      this.subtitle.textContent = [told.title, words("%1 parameters", told.info.parameters.toLocaleString("en")), bytesText(told.info.bytes)].join(" · ");
      this.build(told, formats.some(({ name, graph }) => name === told.format && graph));
    } catch (error) {
      if (isAbort(error)) return;
      this.fail(error);
    }
  }

  private build(told: Inspected, graph: boolean): void {
    const { words } = this.about;
    for (const page of this.pages) page.clear();
    const page = (title: string, fill: ConstructorParameters<typeof Page>[2]): Page => new Page(title, words, fill);
    this.pages = [
      ...(graph ? [page(words("Drawing"), (host, signal) => fillDrawing(host, this.about, signal))] : []),
      page(words("About"), (host) => fillAbout(host, this.about, told)),
    ];
    this.strip = tabStrip(words("Parts of the file"), this.pages.map(({ title, host }) => ({ title, page: host })), (at) => this.choose(this.pages[at].title));
    this.deeds.replaceChildren(...this.hosts.map(({ label, run }) => {
      const button = element("button", { type: "button", class: "gw-action" }, label);
      button.addEventListener("click", () => run(told));
      return button;
    }));
    this.body.replaceChildren(this.strip.root, ...this.pages.map(({ host }) => host));
    this.choose(this.chosen);
  }

  private fail(error: unknown): void {
    for (const page of this.pages) page.clear();
    this.pages = [];
    this.stamp = "";
    this.body.replaceChildren(problem(error, this.about.words, () => void this.load()));
  }

  /** Reads the file anew when it is another one than what is shown. */
  private async watch(): Promise<void> {
    if (this.root.ownerDocument.hidden || !this.root.offsetParent) return;
    const { signal } = this.asking;
    try {
      const now = await this.about.served.get<Stamp>("stamp", { path: this.about.path }, signal);
      this.notice.hidden = true;
      if (now.stamp !== this.stamp) await this.load();
    } catch (error) {
      if (isAbort(error) || !this.stamp) return;
      this.notice.replaceChildren(problem(error, this.about.words));
      this.notice.hidden = false; // what was read stays
    }
  }
}
