// Runs side by side: the table of all, and of those that are chosen the curves and what their settings differ in.

import { mountPlotPanel } from "../plot/panel";
import { Cleanup, commit, isSaved, type Model, type ModelEvent } from "../../core/afm";
import type { Traits } from "../../core/contract";
import { cutInto } from "../../core/cut";
import { element, example, select } from "../../core/dom";
import { counted, grouped } from "../../core/format";
import type { Panel } from "../../core/panel";
import { lookWhileSeen } from "../../core/seen";
import { addStyle } from "../../core/style";
import { tabStrip } from "../../core/tabs";
import { runTable, swatch } from "./run_table";
import css from "./runs.css";
import { runsStore, type RunsStore } from "./store";

addStyle(css);

const INTERVAL = 1500; // ms between two looks at what other processes write
const RECORD = 'run = gw.Run(name="first try")\ntrainer = gw.Trainer(g, loss, callbacks=[run])';

/** The model as the plot knows it, with the traits that are the runs' own. */
function plotModel(model: Model): Model {
  const own: Partial<Record<keyof Traits, keyof Traits | "">> = { x_axis: "runs_x_axis", smoothing: "runs_smoothing", log_scale: "runs_log", metrics: "" };
  const named = (key: keyof Traits): keyof Traits | "" => own[key] ?? key;
  const event = (name: ModelEvent): ModelEvent =>
    (name.startsWith("change:") ? `change:${named(name.slice(7) as keyof Traits)}` : name) as ModelEvent;
  return {
    ...(isSaved(model) ? { saved: true } : {}),
    get: <K extends keyof Traits>(key: K) => {
      const name = named(key);
      return (name ? model.get(name) : []) as Traits[K];
    },
    set: (key, value) => model.set(named(key) as typeof key, value),
    save_changes: () => model.save_changes(),
    send: (content) => model.send(content),
    on: (name, callback) => model.on(event(name), callback),
    off: (name, callback) => model.off(event(name), callback),
  };
}

export const runsPanel: Panel<RunsStore> = { prepare: runsStore, mount: mountRunsPanel };

function mountRunsPanel(host: HTMLElement, model: Model, store: RunsStore): () => void {
  const cleanup = new Cleanup();
  const words = element("span", { class: "gw-subtitle", role: "status" });
  const filter = element("input", { class: "gw-input gw-runs-filter", type: "search", placeholder: "Filter runs", "aria-label": "Filter runs", spellcheck: "false" });
  const table = runTable(model, store);
  const metric = select("Metric", [], (name) => commit(model, "runs_metric", name));
  metric.classList.add("gw-runs-metric");
  const settings = element("div", { class: "gw-table-scroll gw-differences", tabindex: 0 });
  const pages = ["Curves", "Settings"].map((title) => ({ title, page: element("div", { class: "gw-page" }) }));
  const strip = tabStrip("Chosen runs", pages, (at) => strip.show(at));
  const detail = element("div", { class: "gw-runs-detail" }, strip.root, ...pages.map(({ page }) => page));
  const empty = element("div", { class: "gw-empty" });
  const left = element("div", { class: "gw-runs-left" }, table.root);
  const root = element(
    "section",
    { class: "gw-runs", "aria-label": "Runs", tabindex: -1 },
    element("header", { class: "gw-toolbar" }, element("span", { class: "gw-title" }, "Runs"), words, element("span", { class: "gw-space" }), filter),
    element("div", { class: "gw-runs-body" }, left, detail),
    empty,
  );
  host.append(root);
  cleanup.add(mountPlotPanel(pages[0].page, plotModel(model), store.curves, { label: "Curves of the chosen runs", empty: "Check two runs or more to see their curves in one picture.", chooser: metric }));
  pages[1].page.append(settings);

  const update = (): void => {
    const count = table.update();
    const total = store.rows.size + store.more;
    const wrong = typeof count === "string";
    filter.setAttribute("aria-invalid", String(wrong));
    const chosen = store.chosen.length;
    words.textContent = wrong ? count : `${count < store.rows.size ? `${grouped(count)} of ` : ""}${counted(total, "run")}${store.more ? `, the latest ${grouped(store.rows.size)} here` : ""}${chosen ? ` · ${chosen} chosen` : ""}`;
    words.title = store.folder;
    root.toggleAttribute("data-empty", !total);
    empty.hidden = total > 0;
    if (!total) {
      empty.replaceChildren(
        element("div", {}, isSaved(model) && !store.known ? "The runs had not been looked at when this page was saved." : store.known ? "No training is recorded yet. One that has a run among its callbacks appears here, also from other notebooks." : "Reading the runs …"),
        ...(store.known ? [example(RECORD), element("div", {}, `Looked for in ${store.folder}`)] : []),
      );
    }
    updateMetrics();
    updateSettings();
  };

  let names = "";
  const updateMetrics = (): void => {
    const text = JSON.stringify(store.metrics);
    if (text !== names) {
      names = text;
      metric.replaceChildren(...store.metrics.map((name) => element("option", { value: name }, name)));
    }
    metric.hidden = !store.metrics.length;
    metric.value = store.metric;
    metric.disabled = isSaved(model); // the kernel has the other curves
  };

  let drawn = "";
  const updateSettings = (): void => {
    const { chosen, differences } = store;
    const text = JSON.stringify([chosen, differences]);
    if (text === drawn) return;
    drawn = text;
    const problems = chosen.filter(({ problem }) => problem).map(({ label, problem }) => element("p", { class: "gw-runs-words" }, element("span", { class: "gw-flag" }, "damaged"), ` ${label}: ${problem}`));
    if (chosen.length < 2) {
      settings.replaceChildren(...problems, element("p", { class: "gw-runs-words" }, "Check two runs or more to see where their settings differ."));
      return;
    }
    if (!differences.length) {
      settings.replaceChildren(...problems, element("p", { class: "gw-runs-words" }, "The settings of these runs are the same."));
      return;
    }
    const heads = chosen.map((run) => element("th", { title: run.label }, element("span", { class: "gw-run" }, swatch(run), cutInto(element("span", { class: "gw-run-label" }), run.label))));
    const rows = differences.map(([name, ...values]) => {
      const [path, last] = [name.slice(0, name.lastIndexOf(".") + 1), name.slice(name.lastIndexOf(".") + 1)];
      return element("tr", {}, element("th", { scope: "row", title: name }, element("span", { class: "gw-path" }, path), last), ...values.map((value) => element("td", { class: "gw-code", title: value }, value || "—")));
    });
    settings.replaceChildren(...problems, element("table", { class: "gw-table" }, element("thead", {}, element("tr", {}, element("th", {}, counted(differences.length, "difference")), ...heads)), element("tbody", {}, ...rows)));
  };

  const onTraits = (): void => {
    if (root.querySelector(":focus") !== filter) filter.value = String(model.get("runs_filter") ?? "");
    update();
  };
  let timer: ReturnType<typeof setTimeout> | undefined;
  cleanup.dom(filter, "input", () => {
    model.set("runs_filter", filter.value);
    clearTimeout(timer);
    timer = setTimeout(() => model.save_changes(), 300);
  });
  cleanup.dom(filter, "keydown", (event) => {
    if (event.key !== "Escape" || !filter.value) return;
    filter.value = "";
    commit(model, "runs_filter", "");
    event.preventDefault();
    event.stopPropagation();
  });
  for (const trait of ["runs_filter", "runs_sort", "runs_chosen"] as const) cleanup.model(model, `change:${trait}`, onTraits);
  cleanup.add(store.listen(update));
  lookWhileSeen(root, model, cleanup, "runs", INTERVAL, () => ({ whole: !store.known }));
  cleanup.add(() => {
    clearTimeout(timer);
    root.remove();
  });
  strip.show(0);
  onTraits();
  return () => cleanup.run();
}
