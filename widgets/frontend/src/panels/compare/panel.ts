// The graph beside ONNX Runtime: which node is the first that differs, and by how much each does.

import { ask, Cleanup, commit, isSaved, type Model } from "../../core/afm";
import { nameLink } from "../../core/cut";
import { action, checkbox, element, everyFrame, field, select, textButton } from "../../core/dom";
import { errorText, grouped } from "../../core/format";
import type { Panel } from "../../core/panel";
import { rowTable } from "../../core/row_table";
import { addStyle } from "../../core/style";
import css from "./compare.css";
import { badness, compareStore, differs, shareText, type CompareStore, type NodeRow, type Verdict } from "./store";

addStyle(css);

const WORDS: Record<Verdict, string> = { ok: "agrees", differs: "differs", fails: "fails here", inside: "holds it", random: "random", unknown: "no value" };
const SIGNS: Record<Verdict, string> = { ok: "✓", differs: "✕", fails: "✕", inside: "∋", random: "·", unknown: "·" };

export const comparePanel: Panel<CompareStore> = { prepare: compareStore, mount: mountComparePanel };

function mountComparePanel(host: HTMLElement, model: Model, store: CompareStore): () => void {
  const cleanup = new Cleanup();
  const state = (): string => String(model.get("onnx_state") ?? "");
  const running = (): boolean => state() === "running";

  const facts = element("span", { class: "gw-subtitle" });
  const run = action("Compare", () => ask(model, running() ? "compare.stop" : "compare.start"), true);
  const by = select("Beside whom", [["onnxruntime", "ONNX Runtime"], ["reference", "onnx.reference"]], (value) => commit(model, "onnx_by", value));
  const trouble = checkbox(() => draw());
  const overlay = checkbox((on) => commit(model, "onnx_overlay", on));
  const options = element(
    "div",
    { class: "gw-compare-options" },
    field("Beside", by),
    element("span", { class: "gw-space" }),
    field("Only what differs", trouble),
    ...(model.get("graph_spec") === undefined ? [] : [field("In the drawing", overlay)]),
  );
  const bar = element("div", { class: "gw-progress", role: "progressbar", "aria-label": "Comparison", "aria-valuemin": 0 }, element("div"));
  const now = element("div", { class: "gw-compare-now" });
  const failure = element("div", { class: "gw-compare-failure", role: "alert" });
  const finding = element("div", { class: "gw-compare-finding", role: "status" });

  const toSelect = (lit: string): void => commit(model, "selected", model.get("selected") === lit ? "" : lit);
  const link = (row: NodeRow): HTMLElement => nameLink(row.name, () => toSelect(row.lit), [row.name, row.where, row.reason, row.second].filter(Boolean).join("\n"));
  const table = rowTable<NodeRow>("Nodes", [
    { title: "Node", style: "gw-cell-name", order: ({ name }) => name, cell: link },
    { title: "In the model", style: "gw-cell-extra gw-compare-onnx", order: ({ onnx }) => onnx, cell: ({ onnx }) => element("span", { title: onnx }, onnx) },
    { title: "Result", style: "gw-cell-extra", order: ({ spec }) => spec, cell: ({ spec }) => spec },
    { title: "Error", style: "gw-cell-number gw-cell-extra", order: ({ error }) => error ?? -1, cell: ({ error }) => (error === null ? "" : errorText(error)) },
    { title: "Of it here", style: "gw-cell-number", order: ({ own }) => own ?? -1, cell: ({ own }) => (own === null ? "" : errorText(own)) },
    { title: "Of rounding", style: "gw-cell-number", order: badness, cell: shareText },
    { title: "Verdict", style: "", order: badness, cell: ({ verdict }) => mark(verdict) },
  ], differs);

  const hint = element("pre", { class: "gw-example gw-code" });
  const empty = element(
    "div",
    { class: "gw-compare-empty" },
    element("p", {}, "Compare writes the graph as ONNX, runs it beside ONNX Runtime on the example, and holds every node against its own, on the same inputs."),
    hint,
  );
  const root = element(
    "section",
    { class: "gw-compare", "aria-label": "Beside ONNX Runtime" },
    element("header", { class: "gw-toolbar" }, element("span", { class: "gw-title" }, "Beside ONNX Runtime"), facts, element("span", { class: "gw-space" }), run),
    options, bar, now, failure, finding, table.root, empty,
  );
  host.append(root);

  function onOptions(): void {
    by.value = String(model.get("onnx_by") ?? "onnxruntime");
    overlay.checked = Boolean(model.get("onnx_overlay"));
  }

  function draw(): void {
    const known = store.facts;
    const busy = running();
    const begun = state() !== "";
    const has = begun && store.rows.length > 0;
    root.dataset.state = state();
    run.textContent = busy ? "Stop" : begun ? "Compare again" : "Compare";
    run.classList.toggle("gw-action-main", !busy && !begun);
    run.disabled = isSaved(model);
    by.disabled = busy || isSaved(model);
    facts.textContent = begun && known?.feeds ? `on ${known.feeds}` : "";
    bar.hidden = now.hidden = !busy;
    if (busy && known) {
      bar.style.setProperty("--gw-done", String(known.total ? known.done / known.total : 0));
      bar.setAttribute("aria-valuemax", String(known.total));
      bar.setAttribute("aria-valuenow", String(known.done));
      now.textContent = known.total ? `${grouped(known.done)} of ${grouped(known.total)} · ${known.name}` : "Running both …";
    }
    failure.hidden = state() !== "failed";
    failure.textContent = known?.error ?? "";
    showFinding(has && known ? known.first : null, has && known ? known.finding : "");
    table.root.hidden = !has;
    trouble.disabled = overlay.disabled = !has;
    if (has) table.show(store.rows, trouble.checked, String(model.get("selected") ?? ""));
    empty.hidden = begun;
    hint.textContent = String(model.get("onnx_hint") ?? "");
    hint.hidden = !hint.textContent;
  }

  function showFinding(first: NodeRow | null, text: string): void {
    finding.hidden = !text;
    finding.dataset.verdict = first ? "differs" : "ok";
    finding.replaceChildren(sign(first ? "differs" : "ok"), element("span", {}, text));
    if (!first) return;
    const lines = [first.reason, first.second, first.where].filter(Boolean).map((line) => element("div", { class: "gw-compare-why" }, line));
    finding.lastElementChild!.append(...lines);
    if (model.get("graph_spec") !== undefined) finding.append(textButton("gw-text-link", "show", () => commit(model, "selected", first.lit), { title: `Show ${first.lit} in the drawing` }));
  }

  const frame = everyFrame(draw, finding, table.root);
  for (const key of ["onnx_by", "onnx_overlay"] as const) cleanup.model(model, `change:${key}`, onOptions);
  for (const key of ["onnx_state", "onnx_hint", "selected"] as const) cleanup.model(model, `change:${key}`, frame.request);
  cleanup.add(store.listen(frame.request));
  cleanup.add(() => {
    frame.cancel();
    root.remove();
  });
  onOptions();
  draw();
  return () => cleanup.run();
}

function sign(verdict: Verdict): HTMLElement {
  return element("span", { class: "gw-sign", "aria-hidden": "true" }, SIGNS[verdict]);
}

function mark(verdict: Verdict): HTMLElement {
  return element("span", { class: "gw-verdict", "data-verdict": verdict }, sign(verdict), WORDS[verdict]);
}
