// The gradient check: what to check, how far it is, what it found in words, and every parameter and op with its error.

import { ask, Cleanup, commit, isSaved, type Model } from "../../core/afm";
import { nameLink } from "../../core/cut";
import { action, checkbox, element, everyFrame, field, select, textButton } from "../../core/dom";
import { errorText, grouped, shapeText } from "../../core/format";
import { outputChoice } from "../../core/outputs";
import type { Panel } from "../../core/panel";
import { rowTable } from "../../core/row_table";
import { addStyle } from "../../core/style";
import css from "./check.css";
import { focusOf, mountDetail } from "./detail";
import { ways } from "./places";
import { badness, isTrouble } from "./rows";
import { checkStore, type CheckStore, type Finding, type NodeRow, type ParameterRow } from "./store";
import { mountWatch } from "./watch";
import { watchStore, type WatchStore } from "./watch_store";
import { secondsText, shownVerdict, SIGNS, verdictMark, waysText } from "./words";

addStyle(css);

const ALL = "all";
const LIMITS = [["0", "ops only"], ["5", "5 each"], ["20", "20 each"], ["100", "100 each"], [ALL, "all"]] as const;
const MOST_FINDINGS = 6;

const worse = (error: number | null): number => error ?? Infinity;

interface Stores {
  check: CheckStore;
  watch: WatchStore;
}

export const checkPanel: Panel<Stores> = { prepare: (model) => ({ check: checkStore(model), watch: watchStore(model) }), mount: mountCheckPanel };

function mountCheckPanel(host: HTMLElement, model: Model, { check: store, watch }: Stores): () => void {
  const cleanup = new Cleanup();
  const state = (): string => String(model.get("check_state") ?? "");
  const running = (): boolean => state() === "running";

  const facts = element("span", { class: "gw-subtitle" });
  const run = action("Check", () => ask(model, running() ? "check.stop" : "check.start"), true);
  const limit = select("Elements of each parameter", LIMITS, (value) => commit(model, "check_limit", value === ALL ? null : Number(value)));
  const which = select("Parameters", [["trainable", "trainable"], ["selected", "selected"]], (value) => commit(model, "check_which", value));
  const mode = select("Mode", [["", "evaluation"], ["training", "training"]], (value) => commit(model, "check_training", value !== ""));
  const options = element("div", { class: "gw-check-options" }, field("Elements", limit), field("of", which), field("in", mode));
  const bar = element("div", { class: "gw-progress", role: "progressbar", "aria-label": "Gradient check", "aria-valuemin": 0 }, element("div"));
  const now = element("div", { class: "gw-check-now" });
  const findings = element("div", { class: "gw-findings", role: "status" });
  const failure = element("div", { class: "gw-check-failure", role: "alert" });

  let shown: "parameters" | "nodes" = "parameters";
  const chooser = (kind: typeof shown): HTMLButtonElement => textButton("gw-zoom", "", () => {
    shown = kind;
    draw();
  });
  const choose = { parameters: chooser("parameters"), nodes: chooser("nodes") };
  const trouble = checkbox(() => draw());
  const overlay = checkbox((on) => commit(model, "check_overlay", on));
  const lists = element(
    "div",
    { class: "gw-check-options gw-check-lists" },
    element("div", { class: "gw-zooms", role: "group", "aria-label": "What is listed" }, choose.parameters, choose.nodes),
    element("span", { class: "gw-space" }),
    field("Only trouble", trouble),
    ...(model.get("graph_spec") === undefined ? [] : [field("In the drawing", overlay)]),
  );

  const link = (name: string, title: string, onClick: () => void): HTMLElement => nameLink(name, onClick, title);
  const toSelect = (name: string): void => commit(model, "selected", model.get("selected") === name ? "" : name);
  const parameters = rowTable<ParameterRow>("Parameters", [
    { title: "Parameter", style: "gw-cell-name", order: ({ name }) => name, cell: (row) => link(row.name, `${row.name} ${row.where}`, () => open(row)) },
    { title: "Shape", style: "gw-cell-extra", order: ({ size }) => size, cell: ({ shape }) => shapeText(shape as number[]) },
    { title: "Checked", style: "gw-cell-number", order: ({ checked }) => checked, cell: (row) => element("span", { title: waysText(row) }, checkedText(row)) },
    { title: "Worst error", style: "gw-cell-number", order: ({ error }) => worse(error), cell: (row) => (row.checked > row.kinks || row.error !== 0 ? errorText(row.error) : "") },
    { title: "Verdict", style: "", order: badness, cell: (row) => mark({ verdict: shownVerdict(row) }, row.kinks > 1 ? `${row.kinks} kinks` : "") },
  ], isTrouble, 4);
  const nodes = rowTable<NodeRow>("Ops", [
    { title: "Node", style: "gw-cell-name", order: ({ name }) => name, cell: (row) => link(row.name, [row.name, row.where, row.reason].filter(Boolean).join("\n"), () => toSelect(row.faults[0]?.address ?? row.name)) },
    { title: "Op", style: "gw-cell-extra", order: ({ op }) => op, cell: ({ op }) => op },
    { title: "Time", style: "gw-cell-number gw-cell-extra", order: ({ seconds }) => seconds, cell: ({ seconds }) => (seconds ? secondsText(seconds) : "") },
    { title: "Worst error", style: "gw-cell-number", order: ({ error }) => worse(error), cell: ({ error }) => errorText(error) },
    { title: "Verdict", style: "", order: badness, cell: (row) => mark(row, row.faults[0]?.turns ? `wrong ${row.faults[0].turns}` : "") },
  ], isTrouble, 4);

  const hint = element("pre", { class: "gw-example gw-code" });
  const outputs = element("div");
  const empty = element(
    "div",
    { class: "gw-check-empty" },
    element("p", {}, "Check compares every gradient with finite differences, in the background, on the values of this moment. Training may go on meanwhile."),
    hint,
    outputs,
  );
  const overview = element("div", { class: "gw-check-overview" }, options, bar, now, failure, findings, lists, parameters.root, nodes.root, empty, mountWatch(model, watch, cleanup));
  const detail = mountDetail(model, store, cleanup);
  const root = element(
    "section",
    { class: "gw-check", "aria-label": "Gradient check" },
    element("header", { class: "gw-toolbar" }, element("span", { class: "gw-title" }, "Gradient check"), facts, element("span", { class: "gw-space" }), run),
    element("div", { class: "gw-check-body" }, overview, detail.root),
  );
  host.append(root);

  function open(row: ParameterRow): void {
    commit(model, "check_focus", { name: row.name });
    if (!/:\d+$/.test(row.name)) commit(model, "selected", row.name); // not one of several outputs of a node
  }

  function onOptions(): void {
    const held = model.get("check_limit");
    const value = held === null ? ALL : String(held ?? 20);
    if (![...limit.options].some((o) => o.value === value)) limit.append(element("option", { value }, `${value} each`));
    limit.value = value;
    which.value = String(model.get("check_which") ?? "trainable");
    mode.value = model.get("check_training") ? "training" : "";
    overlay.checked = Boolean(model.get("check_overlay"));
  }

  function draw(): void {
    const known = store.facts;
    const busy = running();
    const begun = state() !== "";
    root.dataset.state = state();
    run.textContent = busy ? "Stop" : begun ? "Check again" : "Check";
    run.classList.toggle("gw-action-main", !busy && !begun);
    run.disabled = isSaved(model);
    for (const control of [limit, which, mode]) control.disabled = busy || isSaved(model);
    facts.textContent = begun && known?.loss ? `${known.loss} = ${known.value}${known.feeds ? ` on ${known.feeds}` : ""}${known.training ? ", training" : ""}` : "";
    facts.title = facts.textContent;
    bar.hidden = now.hidden = !busy;
    if (busy && known) {
      const share = known.total ? known.done / known.total : 0;
      bar.style.setProperty("--gw-done", String(share));
      bar.setAttribute("aria-valuemax", String(known.total));
      bar.setAttribute("aria-valuenow", String(known.done));
      const left = share > 0.02 ? `, ${secondsText((known.seconds / share) * (1 - share))} left` : "";
      now.textContent = known.total ? `${grouped(known.done)} of ${grouped(known.total)}${left} · ${known.name}` : "Preparing a copy in float64 …";
    }
    failure.hidden = state() !== "failed";
    failure.textContent = known?.error ?? "";
    showFindings(begun ? (known?.findings ?? []) : []);
    const rows = [...store.parameters.values()];
    const has = begun && state() !== "failed" && (rows.length > 0 || store.nodes.length > 0);
    lists.hidden = !has;
    choose.parameters.textContent = `Parameters ${grouped(rows.length)}`;
    choose.nodes.textContent = `Ops ${grouped(store.nodes.length)}`;
    for (const kind of ["parameters", "nodes"] as const) choose[kind].setAttribute("aria-pressed", String(shown === kind));
    parameters.root.hidden = !has || shown !== "parameters";
    nodes.root.hidden = !has || shown !== "nodes";
    const selected = String(model.get("selected") ?? "");
    if (has && shown === "parameters") parameters.show(rows, trouble.checked, selected);
    if (has && shown === "nodes") nodes.show(store.nodes, trouble.checked, selected);
    empty.hidden = begun;
    hint.textContent = String(model.get("check_hint") ?? "");
    hint.hidden = !hint.textContent;
    outputs.replaceChildren(...[outputChoice(model)].filter((choice) => choice !== undefined));
    root.toggleAttribute("data-open", has && store.parameters.has(focusOf(model).name ?? ""));
    detail.update();
  }

  function showFindings(list: readonly Finding[]): void {
    const made = list.slice(0, MOST_FINDINGS).map(({ verdict, text, nodes: names }) => {
      const line = element("div", { class: "gw-finding", "data-verdict": verdict }, element("span", { class: "gw-sign", "aria-hidden": "true" }, SIGNS[verdict]), element("span", {}, text));
      if (verdict === "fail" && names.length && !store.parameters.has(names[0])) {
        line.append(ways(model, names[0]));
      }
      return line;
    });
    if (list.length > MOST_FINDINGS) made.push(element("div", { class: "gw-finding" }, `… and ${list.length - MOST_FINDINGS} more`));
    findings.replaceChildren(...made);
    findings.hidden = !made.length;
  }

  const frame = everyFrame(draw, findings, parameters.root, nodes.root);
  for (const key of ["check_limit", "check_which", "check_training", "check_overlay"] as const) cleanup.model(model, `change:${key}`, onOptions);
  for (const key of ["check_state", "check_focus", "check_hint", "outputs", "selected"] as const) cleanup.model(model, `change:${key}`, frame.request);
  cleanup.add(store.listen(frame.request));
  cleanup.add(() => {
    frame.cancel();
    root.remove();
  });
  onOptions();
  draw();
  return () => cleanup.run();
}

function checkedText({ checked, size, direction }: ParameterRow): string {
  if (!checked) return direction ? "direction" : "";
  return checked === size ? "all" : `${grouped(checked)} of ${grouped(size)}`;
}

function mark(row: { verdict: ParameterRow["verdict"] }, note: string): HTMLElement {
  const made = verdictMark(row.verdict);
  if (note) made.lastChild!.replaceWith(note);
  return made;
}
