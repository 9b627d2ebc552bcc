// The table of runs: a box to compare each, a head for each column to sort by.

import { DASHES } from "../plot/picture";
import { commit, isSaved, type Model } from "../../core/afm";
import { nameLink } from "../../core/cut";
import { checkbox, element, svg, textButton } from "../../core/dom";
import { agoText, compact, grouped } from "../../core/format";
import { columnsOf, nextSort, numberOf, shownRows } from "./rows";
import type { ChosenRun, RunRow, RunsStore } from "./store";

export const MOST_CHOSEN = 12;
const METRICS = 4;

/** A piece of the line that a run is drawn with. */
export function swatch({ slot }: ChosenRun): SVGElement {
  const dashes = DASHES[slot % DASHES.length].join(" ");
  const line = svg("path", { d: "M0 2H18", "stroke-width": 3, ...(dashes ? { "stroke-dasharray": dashes } : {}) });
  line.style.stroke = `var(--gw-series-${slot % 6})`;
  const node = svg("svg", { class: "gw-swatch", viewBox: "0 0 18 4", "aria-hidden": "true" });
  node.append(line);
  return node;
}

export interface RunTable {
  root: HTMLElement;
  /** Returns how many rows are shown, or what is wrong with the filter. */
  update: () => number | string;
}

export function runTable(model: Model, store: RunsStore): RunTable {
  const head = element("tr", {});
  const body = element("tbody", {});
  const root = element("div", { class: "gw-table-scroll gw-run-table" }, element("table", { class: "gw-table" }, element("thead", {}, head), body));
  const built = new Map<string, { text: string; node: HTMLElement }>();
  let heads = "";

  const chosen = (): string[] => (model.get("runs_chosen") as string[] | undefined) ?? [];
  const choose = (key: string, on: boolean): void => {
    const others = chosen().filter((other) => other !== key);
    commit(model, "runs_chosen", on ? [...others, key] : others);
  };

  const update = (): number | string => {
    const sort = String(model.get("runs_sort") ?? "-created");
    const rows = shownRows(store.rows.values(), String(model.get("runs_filter") ?? ""), sort);
    const metrics = columnsOf(store.rows.values(), METRICS);
    updateHead(metrics, sort);
    if (typeof rows === "string") {
      body.replaceChildren();
      return rows;
    }
    const picked = chosen();
    const nodes = rows.map((row) => rowOf(row, metrics, picked));
    for (const key of built.keys()) if (!store.rows.has(key)) built.delete(key);
    if (nodes.length !== body.children.length || nodes.some((node, k) => body.children[k] !== node)) {
      const focused = body.querySelector<HTMLElement>(":focus");
      body.replaceChildren(...nodes);
      if (focused?.isConnected) focused.focus({ preventScroll: true });
    }
    return rows.length;
  };

  const updateHead = (metrics: string[], sort: string): void => {
    const text = JSON.stringify([metrics, sort]);
    if (text === heads) return;
    heads = text;
    const columns: [string, string, string][] = [
      ["name", "Run", "gw-cell-run"], ...metrics.map((name): [string, string, string] => [name, name, "gw-cell-number gw-cell-metric"]),
      ["epochs", "Epochs", "gw-cell-number gw-cell-more"], ["steps", "Steps", "gw-cell-number gw-cell-more"], ["created", "Begun", "gw-cell-number"],
    ];
    const held = head.querySelector<HTMLElement>(":focus")?.dataset.column;
    head.replaceChildren(element("th", { class: "gw-cell-check" }, element("span", { class: "gw-unseen" }, "Compare")), ...columns.map(([column, title, style]) => {
      const on = sort.replace(/^-/, "") === column;
      const node = textButton("gw-sort", title, () => commit(model, "runs_sort", nextSort(column, String(model.get("runs_sort") ?? ""))), { "data-column": column, title: `Sort by ${title}` });
      if (held === column) queueMicrotask(() => node.focus());
      return element("th", { class: style, "aria-sort": !on ? "none" : sort.startsWith("-") ? "descending" : "ascending" }, node);
    }));
  };

  const rowOf = (row: RunRow, metrics: string[], picked: string[]): HTMLElement => {
    const place = store.chosen.find(({ key }) => key === row.key);
    const on = picked.includes(row.key);
    const full = isSaved(model) || (!on && picked.length >= MOST_CHOSEN); // the kernel has the curves of others
    const ago = `${agoText(Date.now() / 1000 - row.created)}`;
    const when = isSaved(model) ? new Date(1000 * row.created).toISOString().slice(0, 10) : ago;
    const text = JSON.stringify([row, metrics, place, on, full, when]);
    const held = built.get(row.key);
    if (held?.text === text) return held.node;
    const box = checkbox((now) => choose(row.key, now), { "aria-label": `Compare ${row.name}`, checked: on, disabled: full, title: full && !isSaved(model) ? `${MOST_CHOSEN} runs can be compared at a time` : undefined });
    const name = nameLink(row.name || "unnamed", () => !full && choose(row.key, !on), about(row));
    const node = element(
      "tr",
      { class: on ? "gw-chosen" : undefined, "data-run": row.key },
      element("td", { class: "gw-cell-check" }, box),
      element("td", { class: "gw-cell-run" }, element("div", { class: "gw-run" }, place && on ? swatch(place) : "", name, status(row), ...row.tags.slice(0, 3).map((tag) => element("span", { class: "gw-chip gw-tag", title: tag }, tag)))),
      ...metrics.map((metric) => element("td", { class: "gw-cell-number gw-cell-metric" }, metric in row.metrics ? compact(numberOf(row, metric)) : "")),
      element("td", { class: "gw-cell-number gw-cell-more" }, grouped(row.epochs)),
      element("td", { class: "gw-cell-number gw-cell-more" }, grouped(row.steps)),
      element("td", { class: "gw-cell-number" }, when),
    );
    if (held?.node.contains(held.node.ownerDocument.activeElement)) queueMicrotask(() => (node.querySelector("input:not(:disabled)") as HTMLElement | null)?.focus({ preventScroll: true }));
    built.set(row.key, { text, node });
    return node;
  };

  return { root, update };
}

const status = ({ status }: RunRow): HTMLElement | string => (status === "finished" ? "" : element("span", { class: "gw-run-status", "data-status": status }, status));

function about({ name, graph, status, epochs, steps, seconds, tags, notes }: RunRow): string {
  const facts = [name, `graph ${graph}`, `${status}, ${grouped(epochs)} epochs, ${grouped(steps)} steps, ${compact(seconds, 3)} s`, tags.join(", "), notes];
  return facts.filter(Boolean).join("\n");
}
