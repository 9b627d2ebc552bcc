// The checkpoints of a training, over the trait `checkpoint_list` and the requests `checkpoints.*`. Going back to one is
// confirmed in its row, and only while nothing runs.

import { ask, Cleanup, isSaved, type Model } from "../../core/afm";
import { action, element } from "../../core/dom";
import { agoText, bytesText, counted, grouped } from "../../core/format";
import { lookWhileSeen } from "../../core/seen";
import { trainingOf } from "./facts";

const INTERVAL = 2000; // ms between two looks at the folder
const AGES = 5000; // ms between two updates of the ages

interface Row {
  file: string;
  damaged?: string;
  step?: number;
  at?: string;
  metrics?: Record<string, string>;
  bytes?: number;
  time?: string;
  best?: boolean;
}

export interface Listed {
  folder?: string;
  metrics?: string[];
  monitor?: string;
  rows?: Row[];
  more?: number;
}

export const checkpointsOf = (model: Model): Listed => (model.get("checkpoint_list") as Listed | undefined) ?? {};

export function mountCheckpoints(host: HTMLElement, model: Model): () => void {
  const cleanup = new Cleanup();
  const saved = isSaved(model);
  const save = action("Save now", () => ask(model, "checkpoints.save"));
  const words = element("span", { class: "gw-subtitle", role: "status" });
  const head = element("tr", {});
  const body = element("tbody", {});
  const table = element("table", { class: "gw-table" }, element("thead", {}, head), body);
  const scroll = element("div", { class: "gw-table-scroll" }, table);
  const empty = element("div", { class: "gw-empty" }, element("div", {}, "No checkpoint has been written yet. The first one comes as the training goes on; Save now writes one at once."));
  const root = element("section", { class: "gw-checkpoints", "aria-label": "Checkpoints", tabindex: -1 }, element("header", { class: "gw-toolbar" }, words, element("span", { class: "gw-space" }), save), scroll, empty);
  host.append(root);
  let asked = ""; // the file whose row asks whether it is meant

  const idle = (): boolean => !["running", "paused"].includes(String(model.get("state")));

  const update = (): void => {
    const { rows = [], metrics = [], monitor, more = 0, folder = "" } = checkpointsOf(model);
    const t = trainingOf(model);
    const free = idle() && !saved;
    if (!free || !rows.some(({ file }) => file === asked)) asked = "";
    save.disabled = saved;
    save.title = idle() ? `Write a checkpoint into ${folder}` : "Write a checkpoint after the present step";
    const good = rows.filter(({ damaged }) => damaged === undefined).length;
    words.textContent = `${counted(good + more, "checkpoint")}${rows.length > good ? `, ${rows.length - good} damaged` : ""}${monitor ? ` · best by ${monitor}` : ""}${!idle() ? " · stop the training to go back to one" : ""}`;
    words.title = folder;
    empty.hidden = rows.length > 0;
    scroll.hidden = !rows.length;
    const heads: [string, string][] = [["Step", ""], ["Epoch", ""], ...metrics.map((name): [string, string] => [name, "gw-cell-number gw-cell-metric"]), ["Size", "gw-cell-number gw-cell-size"], [saved ? "Written (UTC)" : "Age", "gw-cell-number"], ...(saved ? [] : [["", ""] as [string, string]])];
    head.replaceChildren(...heads.map(([text, style]) => element("th", { class: style || undefined, title: text || undefined }, text)));
    const focused = root.querySelector<HTMLElement>(":focus")?.dataset.key;
    body.replaceChildren(...rows.map((row) => rowOf(row, metrics, heads.length, row.step === t.step, free)));
    if (more) body.append(element("tr", {}, element("td", { colspan: heads.length }, `and ${grouped(more)} older ones`)));
    if (focused) [...body.querySelectorAll<HTMLElement>("[data-key]")].find((node) => node.dataset.key === focused)?.focus();
  };

  const rowOf = (row: Row, metrics: string[], columns: number, here: boolean, free: boolean): HTMLElement => {
    if (row.damaged !== undefined) {
      const chip = element("span", { class: "gw-flag" }, "damaged");
      return element("tr", { "data-damaged": true, title: row.damaged }, element("td", { colspan: columns, class: "gw-cell-reason" }, chip, ` ${row.file}: ${row.damaged}`));
    }
    const { file, step = 0 } = row;
    if (file === asked) {
      const yes = action("Go back", () => {
        asked = "";
        ask(model, "checkpoints.restore", { file });
        update();
      }, true);
      const no = action("Cancel", () => settle(file));
      yes.dataset.key = `yes ${file}`;
      no.dataset.key = `no ${file}`;
      return element("tr", { class: "gw-selected" }, element("td", { colspan: columns }, element("div", { class: "gw-confirm", role: "group", "aria-label": `Go back to step ${step}` }, element("span", {}, `Go back to step ${grouped(step)}? What was trained since is lost, unless it was saved.`), yes, no)));
    }
    const restore = action("Restore", () => {
      asked = file;
      update();
      [...body.querySelectorAll<HTMLElement>("[data-key]")].find((node) => node.dataset.key === `no ${file}`)?.focus();
    });
    restore.dataset.key = `restore ${file}`;
    restore.disabled = !free;
    restore.title = free ? `Go back to step ${grouped(step)}` : "Stop the training first";
    restore.setAttribute("aria-label", `Restore step ${step}`);
    const at = Date.parse(`${(row.time ?? "").replace(" ", "T")}Z`);
    const age = Number.isFinite(at) ? agoText((Date.now() - at) / 1000) : "";
    const name = element("td", {}, element("b", {}, grouped(step)), ...(row.best ? [" ", element("span", { class: "gw-chip" }, "best")] : []), ...(here ? [" ", element("span", { class: "gw-chip gw-here" }, "here")] : []));
    return element(
      "tr",
      { title: `${file}, ${row.time} UTC` },
      name,
      element("td", {}, row.at ?? ""),
      ...metrics.map((metric) => element("td", { class: "gw-cell-number gw-cell-metric" }, row.metrics?.[metric] ?? "")),
      element("td", { class: "gw-cell-number gw-cell-size" }, bytesText(row.bytes ?? 0)),
      element("td", { class: "gw-cell-number" }, saved ? String(row.time).slice(5, 16) : age),
      ...(saved ? [] : [element("td", { class: "gw-cell-number" }, restore)]),
    );
  };

  const settle = (file: string): void => {
    asked = "";
    update();
    [...body.querySelectorAll<HTMLElement>("[data-key]")].find((node) => node.dataset.key === `restore ${file}`)?.focus();
  };

  cleanup.dom(body, "keydown", (event) => {
    if (event.key !== "Escape" || !asked) return;
    settle(asked);
    event.preventDefault();
    event.stopPropagation();
  });
  let step: number | undefined;
  cleanup.model(model, "change:training", () => {
    const now = trainingOf(model).step;
    if (now !== step && idle()) update();
    step = now;
  });
  for (const trait of ["checkpoint_list", "state"] as const) cleanup.model(model, `change:${trait}`, update);
  lookWhileSeen(root, model, cleanup, "checkpoints", INTERVAL);
  const timer = setInterval(() => !root.closest("[hidden]") && update(), AGES);
  cleanup.add(() => {
    clearInterval(timer);
    root.remove();
  });
  update();
  return () => cleanup.run();
}
