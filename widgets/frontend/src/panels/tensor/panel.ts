// Any tensor as a picture: its slice, its numbers, its statistics and histogram, over the traits `tensor_*`.
// The kernel decides what fits; pictures and exact values come as messages.

import { ask, Cleanup, commit, isSaved, type Message, type Model } from "../../core/afm";
import { action, element, everyFrame, Surface } from "../../core/dom";
import { grouped, shapeText } from "../../core/format";
import { addStyle } from "../../core/style";
import { grasp } from "../../core/grasp";
import type { Panel } from "../../core/panel";
import { themeOf, type Theme } from "../../core/theme";
import { Scale, type Palette } from "./colors";
import { mountControls, type Problem } from "./controls";
import { Heatmap } from "./heatmap";
import { numberTable } from "./numbers";
import { cut, digits, fullIndex, Part, placeOf, step, type PartFacts, type Place, type TensorFacts } from "./picture";
import { mountSummary } from "./summary";
import css from "./tensor.css";

addStyle(css);

const SOON = 120; // ms without a change before the kernel is asked for a finer picture or an exact value
const LOOKS = ["colors", "range", "limits", "log", "log_counts", "cells", "numbers", "follows", "part", "scope"] as const;
const ARROWS: Record<string, [number, number]> = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const ZOOMS: Record<string, number> = { "+": 1.5, "=": 1.5, "-": 1 / 1.5, "0": 0 };

let views = 0;

export const tensorPanel: Panel = { prepare: () => undefined, mount: mountTensorPanel };

function mountTensorPanel(host: HTMLElement, model: Model): () => void {
  const id = `${Date.now().toString(36)}.${++views}`; // answers to one view do not concern the others
  const saved = isSaved(model);
  const cleanup = new Cleanup();
  const heatmap = new Heatmap();
  const frame = everyFrame(draw);
  let facts: TensorFacts | undefined; // only with a value; `latest` also without
  let latest: TensorFacts | undefined;
  let base: Part | undefined;
  let whole: DataView | undefined;
  let shaded: Theme | undefined; // what the scale is for
  let scale: Scale | undefined;
  let cursor: Place | undefined;
  let hovered: Place | undefined;
  let shown = false;
  let stale = false; // hidden views are sent nothing
  let answer = { at: "", where: "", text: "" };
  const kept = new Map<string, [TensorFacts, DataView[]]>(); // by node, in a page without a kernel
  const timers: Record<string, ReturnType<typeof setTimeout>> = {};
  const later = (name: string, delay: number, run: () => void): void => {
    clearTimeout(timers[name]);
    timers[name] = setTimeout(run, delay);
  };

  const stage = element("div", { class: "gw-tensor-stage", tabindex: 0, role: "application", "aria-roledescription": "heatmap" });
  const table = element("div", { class: "gw-tensor-numbers", tabindex: 0, "aria-label": "Numbers", hidden: true });
  const scalar = element("div", { class: "gw-tensor-scalar", hidden: true });
  const why = element("p", {}, "Waiting for the kernel …");
  const run = action("Run the stepper", () => ask(model, "stepper.move", { verb: "run" }), true);
  const empty = element("div", { class: "gw-tensor-empty" }, why, run);
  const readout = element("div", { class: "gw-status gw-tensor-readout", role: "status" });
  const root = element("section", { class: "gw-tensor", "aria-label": "Tensor" });
  const controls = mountControls(root, model, cleanup, (text) => say("Copied", text), recut);
  root.append(element("div", { class: "gw-tensor-body" }, stage, table, scalar, empty), readout);
  const summary = mountSummary(root, model, cleanup, () => frame.request());
  host.append(root);
  const theme = themeOf(root, cleanup, frame.request);
  const surface = new Surface(stage, draw);
  // Where an element is on the picture, by its index in the tensor: for tests, and for whatever wants to point at one.
  Object.assign(stage, { locate });

  const averaged = (): boolean => model.get("tensor_cells") === "mean";

  // -- what the kernel says ------------------------------------------------------------------------

  function take(message: TensorFacts, buffers: DataView[]): void {
    const form = (f: TensorFacts | undefined): string => JSON.stringify([f?.name, f?.index, f?.plane]);
    const moved = form(message) !== form(latest);
    if (moved) hovered = undefined;
    latest = message;
    facts = message.note === undefined ? message : undefined;
    base = facts?.part && buffers.length ? new Part(facts.part, facts.grid[1], facts.shown, buffers[0]) : undefined;
    if (facts?.whole) whole = buffers[1];
    answer.at = "";
    heatmap.show(base ? facts : undefined, base);
    update();
    if (moved) controls.judge();
    onCursor();
    if (heatmap.zoomed) askFiner(0);
  }

  function recut(axis: number, at: number): void {
    if (!facts || !whole) return;
    const [next, cells] = cut(facts, whole, axis, at);
    take(next, [cells, whole]);
  }

  cleanup.model(model, "msg:custom", (content: Message, buffers: DataView[]) => {
    if (content.kind === "tensor.picture") {
      const message = content as TensorFacts;
      if (message.kept === undefined) take(message, buffers);
      else kept.set(message.kept, [message, buffers]);
    }
    else if (content.kind === "tensor.who") tellShown(shown, true);
    else if (content.kind === "tensor.fits") controls.judge();
    else if (content.kind === "tensor.problem") controls.judge(content as unknown as Problem);
    else if (content.kind === "tensor.window") {
      const { view, serial, part } = content as unknown as { view: string; serial: number; part: PartFacts };
      if (view !== id || serial !== facts?.serial) return;
      heatmap.refine(new Part(part, facts.grid[1], facts.shown, buffers[0]));
      refreshNumbers();
      showReadout();
      frame.request();
    } else if (content.kind === "tensor.value") {
      const { view, at, where, text } = content as unknown as { view: string; at: number[]; where: string; text: string };
      if (view !== id) return;
      answer = { at: at.join(), where, text };
      showReadout();
    }
  });

  /** Without a kernel, what was kept of the node that is selected. */
  function showKept(): void {
    const name = String(model.get("selected") ?? "");
    if (!kept.size || !name || name.endsWith("/") || name === latest?.name) return;
    const note = `The value of ${name} is not in this page: it keeps parameters, and what the stepper had run when it was saved.`;
    take(...(kept.get(name) ?? [{ kind: "tensor.picture", name, note } as TensorFacts, []]));
  }
  if (saved) cleanup.model(model, "change:selected", showKept);

  function update(): void {
    const rank = facts?.slice.length ?? 0;
    scale = makeScale();
    controls.update(latest, base?.reduced ?? false);
    summary.update(facts);
    const numbers = Boolean(model.get("tensor_numbers")) && base !== undefined && rank > 0;
    stage.hidden = !base || rank === 0 || numbers;
    table.hidden = !numbers;
    scalar.hidden = !base || rank > 0;
    empty.hidden = base !== undefined;
    run.hidden = saved || !latest?.name || latest.note === undefined || model.get("current") === undefined;
    readout.hidden = !base;
    if (latest?.note !== undefined) why.textContent = latest.note;
    else if (facts && !base) why.textContent = `This slice is empty: its shape is ${shapeText(facts.slice)}.`;
    if (base && rank === 0) scalar.textContent = valueText(base, 0);
    if (facts) {
      const numbersText = facts.rows.map(([label, text]) => `${label} ${text}`).join(", ");
      stage.setAttribute("aria-label", `${facts.name} ${facts.index}, ${numbersText}. Arrow keys move the cursor, plus and minus zoom, 0 shows all.`);
    }
    refreshNumbers();
    showReadout();
    frame.request();
  }

  function makeScale(): Scale | undefined {
    if (!facts || facts.low === null || facts.high === null) return undefined;
    const range = model.get("tensor_range");
    let [low, high] = [facts.low, facts.high];
    if (range === "robust") [low, high] = [facts.robust[0] ?? low, facts.robust[1] ?? high];
    if (range === "fixed") [low, high] = [...(model.get("tensor_limits") as number[])].sort((a, b) => a - b);
    if (range === "symmetric") high = Math.max(Math.abs(low), Math.abs(high));
    if (range === "symmetric") low = -high;
    const chosen = model.get("tensor_colors");
    const palette = chosen === "auto" ? (low < 0 && high > 0 ? "diverging" : "sequential") : chosen;
    return new Scale(low, high, palette as Palette, theme()?.dark ?? false, Boolean(model.get("tensor_log")));
  }

  // -- the value under the pointer or the cursor ---------------------------------------------------

  function valueText(part: Part, cell: number): string {
    if (part.reduced) return part.facts.fields.map((name, k) => [name, part.field(cell, k)] as const).filter(([, x], k) => k < 3 || x).map(([name, x]) => `${name} ${digits(x, part.facts.type)}`).join(" · ");
    const value = part.value(cell, false);
    return facts!.dtype === "bool" ? (value ? "True" : "False") : digits(value, part.facts.type);
  }

  function showReadout(): void {
    if (!facts || !base) return;
    const place = facts.slice.length ? (hovered ?? cursor) : { tile: 0, row: 0, column: 0 };
    if (!place) {
      say("", overview(facts, base));
      return;
    }
    const { part, cell } = heatmap.find(place) ?? { part: base, cell: 0 };
    const [top, bottom, left, right] = part.span(place);
    const at = [place.tile, top, bottom, left, right];
    if (answer.at === at.join()) {
      if (!facts.slice.length) scalar.textContent = answer.text;
      say(answer.where, answer.text);
      return;
    }
    const last = fullIndex(facts, { tile: place.tile, row: bottom - 1, column: right - 1 });
    const first = fullIndex(facts, { tile: place.tile, row: top, column: left });
    say(`[${first.map((k, axis) => (k === last[axis] ? String(k) : `${k}…${last[axis]}`)).join(", ") || "()"}]`, valueText(part, cell));
    if ((part.reduced || facts.asks) && !saved) later("value", SOON / 2, () => model.send({ kind: "tensor.value", view: id, at }));
  }

  function say(where: string, text: string): void {
    const value = where ? element("strong", { class: "gw-code", title: text }, text) : element("span", { class: "gw-detail", title: text }, text);
    readout.replaceChildren(...(where ? [element("span", { class: "gw-code gw-detail" }, where)] : []), value);
  }

  function onCursor(): void {
    const index = model.get("tensor_cursor") as number[];
    if (saved && whole && facts?.axes.length === index.length) {
      // The kernel would choose the slice that holds the cursor.
      for (const [axis, [at, , of]] of facts.axes.entries()) {
        if (of < 0 && at !== index[axis]) {
          recut(axis, index[axis]);
          return;
        }
      }
    }
    cursor = facts && index.length ? placeOf(facts, index) : undefined;
    if (cursor && base) {
      heatmap.reveal(cursor);
      askFiner(SOON);
    }
    showReadout();
    refreshNumbers();
    frame.request();
  }

  function setCursor(place: Place | undefined): void {
    hovered = undefined;
    commit(model, "tensor_cursor", place ? fullIndex(facts!, place) : []);
    onCursor();
  }

  function refreshNumbers(): void {
    if (!table.hidden && facts && base) numberTable(table, facts, heatmap.detail ?? base, scale, cursor, setCursor);
  }

  // -- drawing, zoom and keys ----------------------------------------------------------------------

  function draw(): void {
    const colors = theme();
    if (colors !== shaded) {
      shaded = colors;
      scale = makeScale();
      refreshNumbers();
    }
    if (!colors || !facts) return;
    if (base && !stage.hidden && surface.begin()) {
      heatmap.draw(surface.context, colors, scale, averaged(), cursor, surface);
      root.dataset.drawn = facts.name + facts.index;
    }
    summary.draw(colors, facts, scale);
  }

  function askFiner(delay: number): void {
    if (saved) return;
    later("finer", delay, () => {
      const window = heatmap.wanted();
      if (window) model.send({ kind: "tensor.window", view: id, serial: facts!.serial, window });
    });
  }

  function locate(index: number[]): { x: number; y: number } | null {
    const place = facts && placeOf(facts, index);
    if (!place) return null;
    const [x, y] = heatmap.center(place);
    const { left, top } = stage.getBoundingClientRect();
    return { x: left + x, y: top + y };
  }

  /** Zooms about a point of the canvas; a factor of 0 shows everything. */
  function zoom(factor: number, x: number, y: number): void {
    if (factor) heatmap.zoom(factor, x, y);
    else heatmap.reset();
    askFiner(SOON);
    refreshNumbers();
    showReadout();
    frame.request();
  }

  grasp(stage, cleanup, {
    what: "picture",
    focused: () => stage.matches(":focus"),
    hover: (x, y) => {
      hovered = heatmap.at(x, y);
      showReadout();
    },
    leave: () => {
      hovered = undefined;
      showReadout();
    },
    click: (x, y) => setCursor(heatmap.at(x, y)),
    double: () => zoom(0, 0, 0),
    pan: (dx, dy) => {
      heatmap.pan(dx, dy);
      askFiner(SOON);
      frame.request();
    },
    zoom,
  });
  cleanup.dom(stage, "keydown", (event) => {
    if (!facts || !base || event.ctrlKey || event.metaKey || event.altKey) return;
    const factor = ZOOMS[event.key];
    if (event.key in ARROWS) {
      const [dx, dy] = ARROWS[event.key];
      let place = cursor;
      for (let k = event.shiftKey ? 10 : 1; k; k--) place = place ? step(facts, heatmap.find(place)?.part ?? base, place, dx, dy) : { tile: 0, row: 0, column: 0 };
      setCursor(place);
    } else if (factor !== undefined) zoom(factor, ...(cursor ? heatmap.center(cursor) : ([surface.width / 2, surface.height / 2] as [number, number])));
    else if (event.key === "Escape" && cursor) setCursor(undefined);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });

  // -- coming and going ----------------------------------------------------------------------------

  /** The kernel computes pictures during a training only while one is looked at. */
  function tellShown(now: boolean, again = false): void {
    if (!saved && (now !== shown || (again && now))) model.send({ kind: "tensor.look", view: id, shown: now, fresh: stale });
    shown = now;
    stale = !now;
  }

  for (const look of LOOKS) cleanup.model(model, `change:tensor_${look}`, update);
  cleanup.model(model, "change:tensor_cursor", onCursor);
  const observer = new IntersectionObserver((entries) => tellShown(entries[entries.length - 1].isIntersecting));
  observer.observe(root);
  cleanup.add(() => {
    tellShown(false);
    observer.disconnect();
    Object.values(timers).forEach(clearTimeout);
    frame.cancel();
    surface.dispose();
    root.remove();
  });
  update();
  model.send({ kind: "tensor.sync" });
  return () => cleanup.run();
}

/** What the readout says while nothing is pointed at. */
function overview(facts: TensorFacts, base: Part): string {
  const { every, cells } = base.facts;
  const [top, bottom, left, right] = base.span({ tile: 0, row: 0, column: 0 });
  const cut = facts.shown < facts.tiles ? `first ${grouped(facts.shown)} of ${grouped(facts.tiles)} planes · ` : "";
  if (!base.reduced) return `${cut}Point at a cell, or move with the arrow keys, to see its value`;
  return `${cut}${cells.join(" × ")} cells of about ${bottom - top} × ${right - left} values${every > 1 ? `, 1 of ${every} read` : ""}; zoom for more`;
}
