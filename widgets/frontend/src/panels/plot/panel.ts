// Live curves: one small chart per quantity with training and validation together, all over the same steps.

import { Cleanup, commit, isSaved, type Model } from "../../core/afm";
import { button, checkbox, element, everyFrame, field, ICONS, select, Surface, textButton } from "../../core/dom";
import { download } from "../../core/files";
import { compact } from "../../core/format";
import { menuButton, popup, type Entry } from "../../core/menu";
import type { Panel } from "../../core/panel";
import { addStyle } from "../../core/style";
import { themeOf } from "../../core/theme";
import type { Chart, Range } from "./chart";
import { describe, paint, panels, reach, type Line, type Look } from "./picture";
import css from "./plot.css";
import { SvgPen, toCsv } from "./save";
import { firstFrom, nearest, plotStore, type PlotStore } from "./series";
import { hasAxis } from "./transform";

addStyle(css);

const LEAST = 76; // height of a chart; more charts than fit make the panel scroll
const DRAG = 4; // px a pointer moves before it marks a part of the axis

/** What a panel that shows curves of its own has in place of what belongs to a training. */
export interface Own {
  label: string;
  empty: string;
  /** Stands where metrics are chosen. */
  chooser: HTMLElement;
}

export const plotPanel: Panel<PlotStore> = { prepare: plotStore, mount: mountPlotPanel };

export function mountPlotPanel(host: HTMLElement, model: Model, store: PlotStore, own?: Own): () => void {
  const cleanup = new Cleanup();
  const status = element("span", { class: "gw-subtitle gw-plot-state", role: "status" });
  const stage = element("div", { class: "gw-plot-stage", role: "img", tabindex: 0 });
  const spoken = element("div", { class: "gw-plot-spoken", "aria-live": "polite" });
  const empty = element("div", { class: "gw-empty" }, own?.empty ?? "Curves appear here as soon as training starts.");
  const scroll = element("div", { class: "gw-plot-scroll" }, stage, empty);
  const whole = button(ICONS.reset, "Show all steps", () => zoom(undefined));
  const log = textButton("gw-action gw-plot-log", "Log", () => commit(model, "log_scale", !look.log), { title: "Logarithmic scale" });
  const slider = element("input", {
    type: "range", class: "gw-plot-smooth", min: 0, max: 100, step: 1, "aria-label": "Smoothing", title: "Smoothing: none",
  });
  const axis = select("Horizontal axis", [["step", "steps"], ["epoch", "epochs"], ["seconds", "seconds"]], (value) => commit(model, "x_axis", value));
  const chooser = popup(ICONS.outline, "Choose curves", fillChooser);
  const saver = menuButton(ICONS.save, "Save", () => [{ title: "Save as", entries: formats() }]);
  const tools = element("div", { class: "gw-plot-tools" }, whole, field("Smooth", slider), log, axis, ...(own ? [] : [chooser.root]), saver.root);
  const root = element(
    "section",
    { class: "gw-plot", "aria-label": own?.label ?? "Training curves" },
    element("header", { class: "gw-toolbar" }, ...(own ? [own.chooser] : [element("span", { class: "gw-title" }, "Training"), status]), tools),
    scroll,
    spoken,
  );
  host.append(root);

  let charts: Chart[] = [];
  let marking: { from: number; at: number } | undefined;
  const look: Look = { axis: "step", smoothing: 0, log: false, metrics: [] };
  const frame = everyFrame(draw);
  const theme = themeOf(root, cleanup, frame.request);
  const surface = new Surface(stage, () => draw());

  function draw(): void {
    const found = panels(store, look);
    empty.hidden = found.size > 0;
    root.dataset.points = String(store.series.reduce((sum, { length, age }) => sum + (age ? 0 : length), 0));
    status.textContent = store.status;
    axis.disabled = store.placed && isSaved(model); // the kernel places points
    for (const option of axis.options) option.disabled = !hasAxis(store, option.value);
    scroll.style.setProperty("--gw-plot-height", `${found.size * LEAST}px`);
    const colors = theme();
    charts = [];
    if (!colors || !surface.begin() || !found.size) return;
    charts = paint(surface.context, surface.width, surface.height, colors, store, look);
    stage.setAttribute("aria-label", describe(found));
  }

  const lines = (): Line[] => [...panels(store, look).values()].flat();

  function zoom(part: Range | undefined): void {
    look.zoom = part;
    whole.hidden = !part;
    frame.request();
  }

  // -- the pointer: values under it, a drag marks what to zoom to ------------------------------------

  /** The place on the x axis below the pointer. */
  const placeOf = (event: MouseEvent): number => {
    const { area } = charts[0];
    const { low, high } = look.zoom ?? reach(lines());
    const part = (event.clientX - stage.getBoundingClientRect().left - area.x) / area.width;
    return low + Math.min(1, Math.max(0, part)) * (high - low);
  };

  /** The point of the longest curve that is nearest. */
  const snap = (x: number): number | undefined => {
    const longest = lines().reduce<Line | undefined>((a, b) => (a && a.raw.length >= b.raw.length ? a : b), undefined);
    return longest && longest.raw.x[nearest(longest.raw, x)];
  };

  cleanup.dom(stage, "pointerdown", (event) => {
    if (!charts.length || event.button) return;
    marking = { from: placeOf(event), at: event.clientX };
    stage.setPointerCapture(event.pointerId);
  });
  cleanup.dom(stage, "pointermove", (event) => {
    if (!charts.length) return;
    const x = placeOf(event);
    look.hover = snap(x);
    const moving = marking && Math.abs(event.clientX - marking.at) > DRAG;
    look.band = moving ? { low: Math.min(marking!.from, x), high: Math.max(marking!.from, x) } : undefined;
    frame.request();
  });
  cleanup.dom(stage, "pointerup", () => {
    if (look.band && look.band.high > look.band.low) zoom(look.band);
    marking = look.band = undefined;
    frame.request();
  });
  cleanup.dom(stage, "pointercancel", () => {
    marking = look.band = undefined;
    frame.request();
  });
  cleanup.dom(stage, "pointerleave", () => {
    look.hover = undefined;
    frame.request();
  });
  cleanup.dom(stage, "dblclick", () => zoom(undefined));

  // -- the keyboard: arrows move the crosshair -------------------------------------------------------

  cleanup.dom(stage, "keydown", (event) => {
    const longest = lines().reduce<Line | undefined>((a, b) => (a && a.raw.length >= b.raw.length ? a : b), undefined)?.raw;
    if (!longest || !charts.length) return;
    const { low, high } = look.zoom ?? reach(lines());
    const pixels = ((high - low) / charts[0].area.width) * (event.shiftKey ? 20 : 1);
    const { x, length } = longest;
    const here = look.hover ?? high;
    if (event.key === "ArrowRight") look.hover = x[Math.min(length - 1, Math.max(firstFrom(x, length, here + pixels), nearest(longest, here) + 1))];
    else if (event.key === "ArrowLeft") look.hover = x[Math.max(0, Math.min(firstFrom(x, length, here - pixels), nearest(longest, here) - 1))];
    else if (event.key === "Home") look.hover = x[firstFrom(x, length, low)];
    else if (event.key === "End") look.hover = x[nearest(longest, high)];
    else if (event.key === "Escape" && (look.hover !== undefined || look.zoom)) {
      if (look.hover === undefined) zoom(undefined);
      look.hover = undefined;
    } else return;
    spoken.textContent = look.hover === undefined ? "" : spokenAt(look.hover);
    frame.request();
    event.preventDefault();
    event.stopPropagation();
  });
  cleanup.dom(stage, "blur", () => {
    look.hover = undefined;
    frame.request();
  });

  const spokenAt = (x: number): string => {
    const values = lines()
      .filter(({ series }) => !series.age)
      .map(({ series, shown }) => `${series.panel} ${series.name} ${compact(shown.y[nearest(shown, x)])}`);
    return `${look.axis} ${compact(x)}: ${values.join(", ")}`;
  };

  // -- the tools -------------------------------------------------------------------------------------

  function fillChooser(panel: HTMLElement): void {
    const metrics = [...new Set([...store.series.map((series) => series.panel), ...store.onDemand])];
    const shown = metrics.filter((name) => (look.metrics.length ? look.metrics.includes(name) : !store.onDemand.includes(name)));
    const boxes = metrics.map((name) => {
      const choose = (on: boolean): void => {
        commit(model, "metrics", metrics.filter((other) => (other === name ? on : shown.includes(other))));
        fillChooser(panel);
        panel.querySelectorAll("input")[metrics.indexOf(name)].focus();
      };
      const box = checkbox(choose, { checked: shown.includes(name), disabled: shown.length === 1 && shown[0] === name });
      return element("label", {}, box, name);
    });
    panel.replaceChildren(...(boxes.length ? boxes : ["There are no curves yet."]));
  }

  function formats(): Entry[] {
    const csv = (): string => toCsv(store, lines(), look.zoom);
    const ways: [string, () => void][] = [
      ["Picture, PNG", savePng],
      ["Picture, SVG", () => download("training.svg", new Blob([svg()], { type: "image/svg+xml" }))],
      ["Points, CSV", () => download("training.csv", new Blob([csv()], { type: "text/csv" }))],
      ["Copy points as CSV", () => void navigator.clipboard?.writeText(csv())],
    ];
    return ways.map(([label, run]) => ({ label, run, disabled: !charts.length }));
  }

  const still = (): Look => ({ ...look, hover: undefined, band: undefined });

  function svg(): string {
    const pen = new SvgPen(element("canvas").getContext("2d")!);
    paint(pen, surface.width, surface.height, theme()!, store, still());
    return pen.finish(surface.width, surface.height, theme()!.surface);
  }

  function savePng(): void {
    const canvas = element("canvas", { width: 2 * surface.width, height: 2 * surface.height });
    const pen = canvas.getContext("2d")!;
    pen.scale(2, 2);
    pen.fillStyle = theme()!.surface;
    pen.fillRect(0, 0, surface.width, surface.height);
    paint(pen, surface.width, surface.height, theme()!, store, still());
    canvas.toBlob((blob) => blob && download("training.png", blob));
  }

  const update = (): void => {
    const kind = String(model.get("x_axis") ?? "step");
    if (kind !== look.axis) zoom(undefined);
    look.axis = kind;
    look.smoothing = Number(model.get("smoothing") ?? 0);
    look.log = Boolean(model.get("log_scale"));
    look.metrics = (model.get("metrics") as string[] | undefined) ?? [];
    axis.value = look.axis;
    log.setAttribute("aria-pressed", String(look.log));
    slider.value = String(toSlider(look.smoothing));
    slider.title = `Smoothing: ${look.smoothing || "none"}`;
    slider.setAttribute("aria-valuetext", look.smoothing ? String(look.smoothing) : "none");
    frame.request();
  };
  cleanup.dom(slider, "input", () => model.set("smoothing", fromSlider(Number(slider.value)))); // drawn at once, told below
  cleanup.dom(slider, "change", () => commit(model, "smoothing", fromSlider(Number(slider.value))));
  for (const trait of ["x_axis", "smoothing", "log_scale", "metrics"] as const) cleanup.model(model, `change:${trait}`, update);
  cleanup.add(store.listen(frame.request));
  cleanup.add(() => {
    frame.cancel();
    surface.dispose();
    root.remove();
  });
  whole.hidden = true;
  update();
  return () => cleanup.run();
}

/** The slider is even in how many points an average spans, 1 / (1 − weight): from one to a thousand. */
function fromSlider(at: number): number {
  return Math.round((1 - 10 ** (-3 * (at / 100))) * 1000) / 1000;
}

function toSlider(weight: number): number {
  return Math.round((-Math.log10(1 - Math.min(weight, 0.999)) / 3) * 100);
}
