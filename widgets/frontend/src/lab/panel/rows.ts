// The rows of the side panel: of each kind of thing what it is, how far it is, and what can be done with it.

import { button, element, ICONS, textButton } from "../../core/dom";
import { agoText, compact, counted, grouped } from "../../core/format";
import type { Words } from "../viewer/served";
import { sparkline } from "./sparkline";
import { fraction, type CheckRow, type Curve, type GraphRow, type RunRow, type StepperRow, type TrainingRow } from "./told";

/** What rows ask for. */
export interface Deeds {
  open(view: string, key: string): void;
  tell(kind: "pause" | "resume" | "stop", key: string): void;
  compare(folder: string): void;
  /** Whether the kernel is there to do anything. */
  alive(): boolean;
}

/** A row that is kept as long as its thing is there, so that nothing is lost under the pointer. */
export interface Row<Facts> {
  root: HTMLElement;
  update(facts: Facts): void;
}

function frame(name: HTMLElement, ...below: HTMLElement[]): { root: HTMLElement; deeds: HTMLElement } {
  const deeds = element("span", { class: "gw-side-deeds" });
  return { root: element("li", { class: "gw-side-row" }, element("div", { class: "gw-side-head" }, name, deeds), ...below), deeds };
}

const named = (text: string, variable: string, name: HTMLElement): void => {
  const quiet = variable === text ? [] : [element("code", { class: "gw-code gw-side-quiet" }, variable)];
  name.replaceChildren(element("strong", {}, text), ...quiet);
};

/** A word of what can be done, with all of it as its tooltip. */
const deed = (word: string, title: string, run: () => void): HTMLButtonElement => textButton("gw-hop", word, run, { title });

export function graphRow({ key }: GraphRow, words: Words, deeds: Deeds): Row<GraphRow> {
  const name = element("span", { class: "gw-side-name" });
  const facts = element("div", { class: "gw-side-facts" });
  const { root, deeds: place } = frame(name, facts);
  const text = deed(words("text"), words("Write with the model here, and look into it"), () => deeds.open("text", key));
  place.append(
    deed(words("drawing"), words("Show the drawing here; it stays while the notebook scrolls"), () => deeds.open("graph", key)),
    deed(words("parameters"), words("Show the table of parameters here"), () => deeds.open("parameters", key)),
    text,
  );
  return {
    root,
    update(row) {
      named(row.name, row.key, name);
      facts.textContent = `${counted(row.nodes, "node")} · ${grouped(row.parameters)} ${words("trainable numbers")}`;
      text.hidden = !row.writes;
      place.hidden = !deeds.alive();
    },
  };
}

export function trainingRow({ key }: TrainingRow, words: Words, deeds: Deeds, curve: (key: string) => Curve | undefined): Row<TrainingRow> {
  const name = element("span", { class: "gw-side-name" });
  const chip = element("span", { class: "gw-chip", role: "status" });
  const facts = element("div", { class: "gw-side-facts" });
  const reason = element("div", { class: "gw-side-facts" });
  const bar = element("div", {});
  const progress = element("div", { class: "gw-progress", role: "progressbar", "aria-label": words("steps of this fit") }, bar);
  const line = sparkline();
  const { root, deeds: place } = frame(name, element("div", { class: "gw-side-run" }, chip, facts), progress, reason, line.root);
  const pause = button(ICONS.pause, words("Pause after the present step"), () => deeds.tell("pause", key));
  const resume = button(ICONS.play, words("Go on"), () => deeds.tell("resume", key));
  const stop = button(ICONS.stop, words("Stop after the present step"), () => deeds.tell("stop", key));
  place.append(
    pause, resume, stop,
    deed(words("curves"), words("Show the curves here"), () => deeds.open("curves", key)),
    deed(words("controls"), words("Show the trainer's controls here"), () => deeds.open("training", key)),
  );
  return {
    root,
    update(row) {
      named(row.name, row.key, name);
      const alive = deeds.alive();
      const state = stateOf(row, alive);
      chip.textContent = words(state);
      chip.dataset.state = state;
      facts.textContent = progressText(row);
      const done = fraction(row);
      progress.hidden = done === undefined || (row.status === "idle" && row.outcome === "finished");
      if (done !== undefined) {
        bar.style.setProperty("--gw-done", String(done));
        progress.setAttribute("aria-valuenow", String(Math.round(100 * done)));
      }
      reason.textContent = row.outcome === "failed" ? (row.reason.split("\n")[0] ?? "") : row.outcome === "stopped" ? row.reason : "";
      reason.title = row.reason;
      reason.classList.toggle("gw-side-reason", row.outcome === "failed");
      reason.hidden = !reason.textContent;
      pause.hidden = row.status !== "running";
      resume.hidden = row.status !== "paused";
      stop.hidden = row.status === "idle";
      place.hidden = !alive;
      line.draw(curve(row.key));
    },
  };
}

/** One word for how a training is. */
export function stateOf(row: TrainingRow, alive = true): string {
  if (row.status !== "idle") return alive ? row.status : "interrupted";
  return row.outcome === "running" || row.outcome === "" ? (row.step ? "idle" : "new") : row.outcome;
}

/** `step 1,120 of 5,000 · loss 0.1234 · 45 steps/s · 12 s left`. */
export function progressText(row: TrainingRow): string {
  const parts = [row.total && row.status !== "idle" ? `step ${grouped(row.done)} of ${grouped(row.total)}` : `step ${grouped(row.step)}`];
  if (row.step) parts.push(`loss ${compact(Number(row.loss))}`);
  if (row.status === "running" && row.rate) parts.push(`${compact(row.rate, 3)} steps/s`);
  if (row.status === "running" && row.left !== null && row.left >= 5) parts.push(`${agoText(row.left)} left`);
  if (row.skipped) parts.push(`${grouped(row.skipped)} skipped`);
  return parts.join(" · ");
}

export function stepperRow({ key }: StepperRow, words: Words, deeds: Deeds): Row<StepperRow> {
  const name = element("span", { class: "gw-side-name" });
  const facts = element("div", { class: "gw-side-facts" });
  const { root, deeds: place } = frame(name, facts);
  const open = deed(words("stepper"), words("Show a stepper of this graph here"), () => deeds.open("stepper", key));
  place.append(open);
  return {
    root,
    update(row) {
      named(row.name || row.key, row.key, name);
      facts.textContent = row.at ? `${words("stands before")} ${row.at}` : words("stands at the end");
      place.hidden = !deeds.alive() || row.key.startsWith("of ");
    },
  };
}

export function checkRow({ key }: CheckRow, words: Words, deeds: Deeds): Row<CheckRow> {
  const name = element("span", { class: "gw-side-name" });
  const chip = element("span", { class: "gw-chip" });
  const facts = element("span", { class: "gw-side-facts" });
  const { root, deeds: place } = frame(name, element("div", { class: "gw-side-run" }, chip, facts));
  place.append(deed(words("report"), words("Show the check here"), () => deeds.open("check", key)));
  return {
    root,
    update(row) {
      named(row.loss, row.key, name);
      chip.textContent = words(row.outcome);
      chip.dataset.state = row.outcome;
      facts.textContent = row.blame.length ? `${words("at fault:")} ${row.blame.join(", ")}` : "";
      place.hidden = !deeds.alive() || row.key.startsWith("of ");
    },
  };
}

export function runRow({ folder, key }: RunRow, words: Words, deeds: Deeds): Row<RunRow> {
  const name = element("span", { class: "gw-side-name" });
  const facts = element("div", { class: "gw-side-facts" });
  const { root, deeds: place } = frame(name, facts);
  const beside = deed(words("compare"), words("Show it beside the other runs of its folder, here"), () => deeds.open("runs", key));
  place.append(beside, deed(words("document"), words("Open the runs of its folder as a document"), () => deeds.compare(folder)));
  return {
    root,
    update(row) {
      named(row.name, row.key, name);
      facts.textContent = `${row.recording ? `${words("recording")} · ` : ""}${row.folder}`;
      facts.title = row.folder;
      beside.hidden = !deeds.alive();
    },
  };
}

/** Rows in a list, made and taken away as things come and go. */
export class RowList<Facts extends { key: string }> {
  private readonly list = element("ul", { class: "gw-side-list" });
  private readonly count = element("span", { class: "gw-side-quiet" });
  readonly root: HTMLElement;
  private readonly known = new Map<string, Row<Facts>>();

  constructor(title: string, private readonly make: (facts: Facts) => Row<Facts>) {
    this.root = element("details", { class: "gw-side-section", open: true }, element("summary", {}, title, this.count), this.list);
  }

  update(rows: readonly Facts[]): void {
    const keys = new Set(rows.map(({ key }) => key));
    for (const [key, row] of this.known) {
      if (keys.has(key)) continue;
      row.root.remove();
      this.known.delete(key);
    }
    rows.forEach((facts, at) => {
      const row = this.known.get(facts.key) ?? this.make(facts);
      this.known.set(facts.key, row);
      row.update(facts);
      if (this.list.children[at] !== row.root) this.list.insertBefore(row.root, this.list.children[at] ?? null);
    });
    this.count.textContent = ` ${rows.length}`;
    this.root.hidden = !rows.length;
  }

  clear(): void {
    this.known.clear();
    this.list.replaceChildren();
  }
}
