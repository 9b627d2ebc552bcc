// The parameters of a graph: facts, statistics, and a box that says whether each is trained.
// The kernel decides: a box shows what it reports, and waits visibly for its answer. Only the rows in sight are built,
// so that 5,000 parameters scroll as easily as five.

import { ask, Cleanup, commit, isSaved, type Model, type Named } from "../../core/afm";
import type { Traits } from "../../core/contract";
import { action, element, everyFrame, example, textButton } from "../../core/dom";
import { compact, grouped } from "../../core/format";
import type { Panel } from "../../core/panel";
import { addStyle } from "../../core/style";
import { columnMenu } from "./column_menu";
import { BOX_WIDTH, columnsFor, COLUMNS, NAME_WIDTH, type Column, type Sorted } from "./columns";
import { filterOf, type Fits } from "./filter";
import css from "./parameters.css";
import { RowView } from "./row_view";
import { rowsOf, sorted, type Order, type Parameter, type Row } from "./rows";
import { HEALTHY, nearest, type Sparkline } from "./sparkline";
import { NUMBERS, statisticsStore, type HistoryColumn, type StatisticsStore } from "./statistics";

addStyle(css);

const ROW = 28; // px, as in parameters.css
const USUAL = 500; // px, before the panel has a size
const SPARE = 6; // rows that are built above and below those in sight
const TRAINED = { name: "trained", title: "Train", hint: "Whether training changes the parameter" } as const;
const NAME = { name: "name", title: "Name", hint: "Name" } as const;

export const parametersPanel: Panel<StatisticsStore> = { prepare: statisticsStore, mount: mountParameterPanel };

function mountParameterPanel(host: HTMLElement, model: Model, store: StatisticsStore): () => void {
  const cleanup = new Cleanup();
  const list = <T>(key: Named<T[] | object[]>): T[] => (model.get(key) as T[] | undefined) ?? [];
  const text = (key: Named<string>): string => String(model.get(key) ?? "");

  const filter = element("input", {
    type: "search", class: "gw-input gw-parameter-filter", placeholder: "Filter: */w or /regex/", "aria-label": "Filter parameters",
    spellcheck: "false", autocomplete: "off",
  });
  const toolbar = element("header", { class: "gw-toolbar" }, element("span", { class: "gw-title" }, "Parameters"), filter, element("span", { class: "gw-space" }));
  const found = element("span", { class: "gw-subtitle", role: "status" });
  const freezeShown = action("Freeze shown", () => train(shownNames(), false));
  const trainShown = action("Train shown", () => train(shownNames(), true));
  const filtered = element("div", { class: "gw-filtered", hidden: true }, found, element("span", { class: "gw-space" }), freezeShown, trainShown);
  const columnWidths = element("colgroup");
  const head = element("tr", { "aria-rowindex": 1 });
  const above = element("td", {});
  const below = element("td", {});
  const body = element("tbody", { class: "gw-rows" });
  const table = element(
    "table", { class: "gw-table", role: "treegrid", "aria-label": "Parameters" },
    columnWidths,
    element("thead", {}, head),
    element("tbody", { "aria-hidden": "true" }, element("tr", { class: "gw-gap" }, above)),
    body,
    element("tbody", { "aria-hidden": "true" }, element("tr", { class: "gw-gap" }, below)),
  );
  const scroll = element("div", { class: "gw-table-scroll", tabindex: -1 }, table);
  const empty = element("div", { class: "gw-empty" });
  const totals = element("strong", {});
  const more = element("span", { class: "gw-detail" });
  const step = element("span", { class: "gw-detail" });
  const status = element("footer", { class: "gw-status" }, totals, more, element("span", { class: "gw-space" }), step);
  const tip = element("div", { class: "gw-sample", role: "tooltip", hidden: true });
  const root = element("section", { class: "gw-parameters", "aria-label": "Parameters" }, toolbar, filtered, scroll, empty, status, tip);
  host.append(root);

  let rows: Row[] = [];
  let columns: Column[] = [];
  let fits: Fits = () => true;
  let stale = true; // the list of rows has to be made anew
  let current = ""; // the row that the keyboard is on
  let wantedInSight = ""; // a parameter to scroll to
  const waiting = new Set<string>();
  const views = new Map<string, RowView>();
  const explain = model.get("why") === undefined || isSaved(model) ? undefined : ({ key }: Row) => ask(model, "why.ask", { name: key });
  const menu = columnMenu(model, () => columns.map(({ name }) => name));
  toolbar.append(menu.root);
  const frame = everyFrame(draw);
  const rowsFrame = everyFrame(drawRows);

  // -- what is shown --------------------------------------------------------------------------------------------------

  function order(): Order {
    const sort = text("table_sort");
    const wanted = sort.replace(/^-/, "");
    const column = COLUMNS.find(({ name }) => name === wanted);
    const frozen = new Set(list<string>("frozen"));
    const rank =
      wanted === "name" ? ({ name }: Parameter) => name
      : wanted === "trained" ? ({ name }: Parameter) => Number(frozen.has(name))
      : column && ((parameter: Parameter) => column.rank(parameter, store));
    return { fits, rank: rank || undefined, down: sort.startsWith("-"), groups: model.get("table_groups") !== false, closed: new Set(list<string>("table_closed")) };
  }

  const shownNames = (): string[] => list<Parameter>("parameters").filter(({ name, running }) => !running && fits(name)).map(({ name }) => name);

  function draw(): void {
    const all = list<Parameter>("parameters");
    const width = scroll.clientWidth;
    if (!width && all.length && head.childElementCount) return; // behind a tab: drawn again when it is opened
    const wanted = columnsFor(width || USUAL, list<string>("table_columns"), store.sampled);
    if (wanted.map(({ name }) => name).join() !== columns.map(({ name }) => name).join() || !head.childElementCount) {
      columns = wanted;
      views.clear();
      body.replaceChildren();
      makeHead();
    }
    menu.update();
    if (stale) rows = rowsOf(all, order());
    stale = false;
    table.toggleAttribute("data-grouped", rows.some(({ parameter }) => !parameter));
    drawHead();
    drawTotals(all);
    drawRows();
    if (wantedInSight && scroll.clientHeight) {
      show(rows.findIndex(({ key }) => key === wantedInSight));
      wantedInSight = "";
      drawRows();
    }
  }

  function makeHead(): void {
    const widths = [BOX_WIDTH, undefined, ...columns.map(({ width }) => width)];
    columnWidths.replaceChildren(...widths.map((width) => {
      const col = element("col");
      if (width) col.style.width = `${width}px`;
      return col;
    }));
    table.style.minWidth = `${widths.reduce<number>((sum, width) => sum + (width ?? NAME_WIDTH), 0)}px`;
    above.colSpan = below.colSpan = widths.length;
    head.replaceChildren(...[TRAINED, NAME, ...columns].map(({ name, title, hint }) => {
      const isNumber = columns.some((column) => column.name === name && column.isNumber);
      const sorter = textButton("gw-sort", title, () => commit(model, "table_sort", nextSort(name, isNumber)), { title: hint });
      return element("th", { scope: "col", class: isNumber ? "gw-cell-number" : name === "trained" ? "gw-cell-check" : "", "data-column": name }, sorter);
    }));
  }

  /** Numbers begin with the largest; a third click goes back to the order of the graph. */
  function nextSort(name: Sorted, isNumber: boolean): Traits["table_sort"] {
    const steps: Traits["table_sort"][] = isNumber ? [`-${name}`, name, ""] : [name, `-${name}`, ""];
    return steps[(steps.indexOf(model.get("table_sort")) + 1) % steps.length];
  }

  function drawHead(): void {
    const sort = text("table_sort");
    for (const cell of head.children) {
      const name = (cell as HTMLElement).dataset.column;
      cell.setAttribute("aria-sort", sort === name ? "ascending" : sort === `-${name}` ? "descending" : "none");
    }
  }

  /** Height of what can be seen at once; before the panel has its size it is as high as all rows. */
  const sight = (): number => Math.min(scroll.clientHeight || USUAL, Number(model.get("height")) || USUAL);

  function drawRows(): void {
    const first = Math.max(0, Math.floor(scroll.scrollTop / ROW) - SPARE);
    const last = Math.min(rows.length, Math.ceil((scroll.scrollTop + sight()) / ROW) + SPARE);
    const state = { store, frozen: new Set(list<string>("frozen")), waiting, selected: model.get("selected") };
    const inSight = new Set(rows.slice(first, last).map(({ key }) => key));
    const focused = (root.getRootNode() as Document | ShadowRoot).activeElement as HTMLElement | null;
    const hadFocus = focused !== null && body.contains(focused);
    for (const [key, view] of views) {
      if (inSight.has(key)) continue;
      view.node.remove();
      views.delete(key);
    }
    if (!rows.some(({ key }) => key === current)) current = rows[0]?.key ?? "";
    for (let i = first; i < last; i++) {
      const row = rows[i];
      let view = views.get(row.key);
      if (view && view.depth !== row.depth) {
        view.node.remove();
        view = undefined;
      }
      if (!view) {
        view = new RowView(row, columns, { train: (r, on) => train(trainable(r), on), select, toggle, explain });
        views.set(row.key, view);
      }
      view.update(row, i, state);
      view.setTabbable(row.key === current || (i === first && !inSight.has(current)));
      const there = body.children[i - first];
      if (there !== view.node) body.insertBefore(view.node, there ?? null);
    }
    above.style.height = `${first * ROW}px`;
    below.style.height = `${(rows.length - last) * ROW}px`;
    table.setAttribute("aria-rowcount", String(rows.length + 1));
    if (hadFocus && focused !== (root.getRootNode() as Document | ShadowRoot).activeElement) {
      (focused.isConnected ? focused : scroll).focus({ preventScroll: true });
    }
  }

  function drawTotals(all: readonly Parameter[]): void {
    const frozen = new Set(list<string>("frozen"));
    const own = all.filter(({ running }) => !running);
    const count = (some: readonly Parameter[]): number => some.reduce((sum, p) => sum + p.count, 0);
    const trained = count(own.filter(({ name }) => !frozen.has(name)));
    totals.textContent = all.length ? `${grouped(trained)} of ${grouped(count(all))} trained` : "";
    more.textContent = [bytesText(all.reduce((sum, { bytes }) => sum + bytes, 0)), ...store.flagged(all.map(({ name }) => name)).map(([flag, n]) => `${n} ${flag}`)].join(" · ");
    const latest = store.steps[store.steps.length - 1];
    step.textContent = latest === undefined ? "" : `step ${grouped(latest)}`;
    status.hidden = !all.length;
    const shown = sorted(all, { ...order(), rank: undefined });
    const isFiltered = text("table_filter").trim() !== "";
    filtered.hidden = !isFiltered || !all.length;
    found.textContent = `${grouped(shown.length)} of ${grouped(all.length)} shown`;
    freezeShown.disabled = !shown.some(({ name, running }) => !running && !frozen.has(name));
    trainShown.disabled = !shown.some(({ name, running }) => !running && frozen.has(name));
    scroll.hidden = !all.length;
    root.toggleAttribute("data-empty", !all.length);
    empty.hidden = all.length > 0 && shown.length > 0;
    empty.replaceChildren(...(all.length ? ["No name fits this filter."] : ["This graph has no parameters. Declare one:", example('w = g.variable("w", (64, 10))')]));
  }

  // -- what the user does ---------------------------------------------------------------------------------------------

  function trainable(row: Row): string[] {
    return row.members.filter(({ running }) => !running).map(({ name }) => name);
  }

  function train(names: string[], on: boolean): void {
    for (const name of names) waiting.add(name);
    frame.request();
    ask(model, "parameters.freeze", { names, frozen: !on }, onFrozen);
  }

  function select({ key }: Row): void {
    current = key;
    commit(model, "selected", model.get("selected") === key ? "" : key);
  }

  function toggle({ scopes, open }: Row): void {
    const rest = list<string>("table_closed").filter((scope) => !scopes.includes(scope));
    commit(model, "table_closed", open ? [...rest, scopes[0]] : rest);
  }

  /** Opens the groups around the selected parameter and brings it into sight. */
  function reveal(): void {
    const name = text("selected");
    if (!list<Parameter>("parameters").some((parameter) => parameter.name === name)) return;
    const closed = list<string>("table_closed");
    const rest = closed.filter((scope) => !name.startsWith(`${scope}/`));
    if (rest.length < closed.length) commit(model, "table_closed", rest);
    wantedInSight = name;
    frame.request();
  }

  function show(index: number): void {
    if (index < 0) return;
    const top = index * ROW;
    const room = sight() - head.offsetHeight - ROW;
    if (top < scroll.scrollTop) scroll.scrollTop = top;
    else if (top > scroll.scrollTop + room) scroll.scrollTop = top - room;
  }

  cleanup.dom(scroll, "keydown", (event) => {
    const at = rows.findIndex(({ key }) => key === current);
    const row = rows[at];
    if (!row || event.target instanceof HTMLElement && head.contains(event.target)) return;
    const page = Math.max(1, Math.floor(sight() / ROW) - 2);
    const moves: Record<string, number> = { ArrowUp: at - 1, ArrowDown: at + 1, Home: 0, End: rows.length - 1, PageUp: at - page, PageDown: at + page };
    if (event.key in moves) go(Math.min(rows.length - 1, Math.max(0, moves[event.key])));
    else if (event.key === "ArrowRight" && !row.parameter && !row.open) toggle(row);
    else if (event.key === "ArrowLeft" && !row.parameter && row.open) toggle(row);
    else if (event.key === "ArrowLeft") {
      const outer = rows.slice(0, at).reverse().find(({ depth, parameter }) => !parameter && depth < row.depth);
      if (!outer) return;
      go(rows.indexOf(outer));
    } else return;
    event.preventDefault();
    event.stopPropagation();
  });

  function go(index: number): void {
    current = rows[index].key;
    show(index);
    drawRows();
    views.get(current)?.link.focus({ preventScroll: true });
  }

  cleanup.dom(scroll, "focusin", (event) => {
    const row = (event.target as Element).closest?.<HTMLElement>(".gw-rows tr");
    if (row) current = row.dataset.name ?? row.dataset.scope ?? current;
  });

  let pointed: Sparkline | undefined;
  const unpoint = (): void => {
    pointed?.mark(undefined);
    pointed = undefined;
    tip.hidden = true;
  };
  cleanup.dom(scroll, "pointerleave", unpoint);
  cleanup.dom(scroll, "scroll", () => {
    unpoint();
    rowsFrame.request();
  });
  cleanup.dom(scroll, "pointermove", (event) => {
    const target = event.target as Element;
    const line = views.get(target.closest<HTMLElement>(".gw-rows tr")?.dataset.name ?? "")?.lineAt(target);
    if (line !== pointed) unpoint();
    if (!line?.values.some((value) => !Number.isNaN(value))) return;
    pointed = line;
    const box = line.node.getBoundingClientRect();
    const k = nearest(event.clientX - box.left, line.steps);
    line.mark(k);
    tip.textContent = `step ${grouped(line.steps[k])}: ${told(line.values[k], line.column)}`;
    tip.hidden = false;
    const origin = root.getBoundingClientRect();
    const left = box.left - origin.left + (box.width - tip.offsetWidth) / 2;
    tip.style.left = `${Math.max(4, Math.min(origin.width - tip.offsetWidth - 4, left))}px`;
    tip.style.top = `${box.top - origin.top - tip.offsetHeight - 2}px`;
  });

  let typed: ReturnType<typeof setTimeout> | undefined;
  cleanup.dom(filter, "input", () => {
    applyFilter();
    clearTimeout(typed);
    typed = setTimeout(() => {
      typed = undefined;
      commit(model, "table_filter", filter.value);
    }, 200);
  });
  cleanup.add(() => clearTimeout(typed));

  // -- what the kernel says -------------------------------------------------------------------------------------------

  function applyFilter(): void {
    const made = filterOf(filter.value);
    filter.setAttribute("aria-invalid", String(typeof made === "string"));
    filter.title = typeof made === "string" ? made : "";
    if (typeof made === "string") return; // what was shown stays while a regex is being typed
    fits = made;
    remake();
  }

  const remake = (): void => {
    stale = true;
    frame.request();
  };
  const onFilter = (): void => {
    const wanted = text("table_filter");
    if (filter.value.trim() !== wanted.trim() && typed === undefined) filter.value = wanted;
    applyFilter();
  };
  const onFrozen = (): void => {
    waiting.clear();
    stale ||= text("table_sort").endsWith("trained");
    frame.request();
  };
  for (const key of ["parameters", "table_sort", "table_groups", "table_closed"] as const) cleanup.model(model, `change:${key}`, remake);
  cleanup.model(model, "change:table_columns", frame.request);
  cleanup.model(model, "change:table_filter", onFilter);
  cleanup.model(model, "change:frozen", onFrozen);
  cleanup.model(model, "change:selected", () => {
    reveal();
    frame.request();
  });
  cleanup.add(store.listen(() => {
    const sort = text("table_sort").replace(/^-/, "");
    stale ||= NUMBERS.some((name) => name === sort);
    frame.request();
  }));
  const resized = new ResizeObserver(frame.request);
  resized.observe(scroll);
  cleanup.add(() => {
    resized.disconnect();
    frame.cancel();
    rowsFrame.cancel();
    root.remove();
  });
  filter.value = text("table_filter");
  applyFilter();
  draw();
  reveal();
  return () => cleanup.run();
}

function told(value: number, column: HistoryColumn): string {
  if (Number.isNaN(value)) return "not trained";
  if (column !== "ratio") return compact(value);
  const side = value > HEALTHY[1] ? "above" : value < HEALTHY[0] ? "below" : "in";
  return `${compact(value)}, ${side} the usual band`;
}

function bytesText(bytes: number): string {
  if (bytes < 1000) return `${bytes} bytes`;
  const units = ["kB", "MB", "GB", "TB"];
  const power = Math.min(units.length, Math.floor(Math.log10(bytes) / 3));
  return `${(bytes / 1000 ** power).toPrecision(3)} ${units[power - 1]}`;
}
