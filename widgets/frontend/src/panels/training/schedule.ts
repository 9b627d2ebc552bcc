// The schedule of the learning rate: a small picture of it with the present step, which opens a curve to read it off.

import { Chart, extent, withRoom, type Range } from "../plot/chart";
import { nearest, type Points } from "../plot/series";
import { Cleanup, commit, type Model } from "../../core/afm";
import { float64 } from "../../core/buffers";
import { element, everyFrame, Surface, svg, textButton } from "../../core/dom";
import { grouped } from "../../core/format";
import { followed, Store } from "../../core/store";
import { themeOf } from "../../core/theme";
import { trainingOf, type Training } from "./facts";
import { rateText } from "./numbers";

const WIDTH = 72;
const HEIGHT = 20;

interface ScheduleMessage {
  kind: "rate.schedule";
  /** In words; "" without a schedule. */
  name: string;
}

export class ScheduleStore extends Store<ScheduleMessage> {
  name = "";
  points: Points = { x: new Float64Array(0), y: new Float64Array(0), length: 0 };

  protected read({ name }: ScheduleMessage, buffers: DataView[]): boolean {
    const [x, y] = buffers.map(float64);
    this.name = name;
    this.points = { x, y, length: Math.min(x.length, y.length) };
    return true;
  }

  get reach(): Range {
    const { x, length } = this.points;
    return { low: 0, high: length ? Math.max(1, x[length - 1]) : 1 };
  }
}

export const scheduleStore = (model: Model): ScheduleStore => followed(model, new ScheduleStore(), "rate.sync", ["rate.schedule"]);

/** Path of the curve in a box; a step where the schedule fails is a gap. */
export function outline({ x, y, length }: Points, within: Range, width: number, height: number): string {
  const range = withRoom(extent([{ x, y, length }], within, false) ?? { low: 0, high: 1 }, false);
  let path = "";
  let drawing = false;
  for (let i = 0; i < length; i++) {
    const on = Number.isFinite(y[i]);
    if (on) path += `${drawing ? "L" : "M"}${((x[i] / within.high) * width).toFixed(1)} ${(height * (1 - (y[i] - range.low) / (range.high - range.low))).toFixed(1)}`;
    drawing = on;
  }
  return path;
}

/** The button with the small picture, and the curve below it; both without a place of their own. */
export function mountSchedule(model: Model, store: ScheduleStore, cleanup: Cleanup): { opener: HTMLElement; strip: HTMLElement; update: () => void } {
  const picture = svg("svg", { viewBox: `0 -2 ${WIDTH} ${HEIGHT + 4}`, width: WIDTH, height: HEIGHT + 4, "aria-hidden": "true" });
  const line = svg("path", { class: "gw-schedule-line" });
  const dot = svg("circle", { class: "gw-schedule-dot", r: 2.6 });
  picture.append(line, dot);
  const opener = textButton("gw-schedule-opener", "", () => commit(model, "schedule_open", !model.get("schedule_open")), { "aria-label": "Learning-rate schedule" });
  opener.append(picture);
  const name = element("span", { class: "gw-schedule-name" });
  const reading = element("span", { class: "gw-schedule-reading", "aria-live": "polite" });
  const log = textButton("gw-action gw-plot-log", "Log", () => commit(model, "schedule_log", !model.get("schedule_log")), { title: "Logarithmic scale", "aria-label": "Logarithmic scale of the schedule" });
  const stage = element("div", { class: "gw-schedule-stage", role: "img", tabindex: 0 });
  const strip = element("div", { class: "gw-schedule", role: "group", "aria-label": "Schedule" }, element("div", { class: "gw-schedule-head" }, name, reading, log), stage);
  const frame = everyFrame(draw);
  const theme = themeOf(strip, cleanup, frame.request);
  const surface = new Surface(stage, () => draw());
  let hover: number | undefined; // index of a point
  let chart: Chart | undefined;

  function draw(): void {
    const colors = theme();
    chart = undefined;
    if (strip.hidden || !colors || !surface.begin() || !store.points.length) return;
    const t = trainingOf(model);
    const { points, reach } = store;
    const positive = model.get("schedule_log") ? extent([points], reach, true) : undefined;
    const range = withRoom(positive ?? extent([points], reach, false) ?? { low: 0, high: 1 }, !!positive);
    const area = { x: 58, y: 6, width: Math.max(10, surface.width - 72), height: Math.max(10, surface.height - 28) };
    chart = new Chart(surface.context, colors, area, reach, range, !!positive);
    chart.grid(true, "step");
    chart.line(points, { color: colors.series[0], dash: t.aside ? [4, 3] : [], width: 1.8, opacity: t.aside ? 0.6 : 1 }, false);
    const here = t.step ?? 0;
    chart.crosshair(here);
    if (t.rate != null) chart.dot(here, Math.min(Math.max(t.rate, range.low), range.high), colors.ink, 3.5);
    if (hover === undefined) return;
    const [x, y] = [points.x[hover], points.y[hover]];
    chart.crosshair(x);
    chart.dot(x, y, colors.series[0], 3.5);
    chart.mark(x, grouped(x));
  }

  const say = (): void => {
    const t = trainingOf(model);
    const { x, y, length } = store.points;
    if (hover !== undefined && hover >= length) hover = undefined;
    const [step, rate] = hover === undefined ? [t.step ?? 0, t.rate] : [x[hover], y[hover]];
    reading.replaceChildren(hover === undefined ? "now, step " : "step ", element("b", {}, grouped(step)), ": ", element("b", {}, rate == null || !Number.isFinite(rate) ? "fails" : rateText(rate)));
  };

  const update = (): void => {
    const t = trainingOf(model);
    const { points, reach } = store;
    const open = Boolean(model.get("schedule_open"));
    opener.hidden = !points.length;
    strip.hidden = !open || !points.length;
    if (!points.length) return;
    opener.setAttribute("aria-expanded", String(open));
    opener.toggleAttribute("data-aside", !!t.aside);
    opener.title = `${store.name}${t.aside ? "\nput aside: the rate was set by hand" : ""}\n${open ? "Hide" : "Show"} the curve`;
    name.textContent = name.title = store.name;
    log.setAttribute("aria-pressed", String(Boolean(model.get("schedule_log"))));
    line.setAttribute("d", outline(points, reach, WIDTH, HEIGHT));
    place(t);
    say();
    stage.setAttribute("aria-label", `Learning rate over ${grouped(reach.high + 1)} steps; at step ${grouped(t.step ?? 0)}: ${t.rate == null ? "unknown" : rateText(t.rate)}`);
    frame.request();
  };

  /** Puts the dot of the small picture on its curve. */
  const place = (t: Training): void => {
    const { points, reach } = store;
    const at = nearest(points, t.step ?? 0);
    const range = withRoom(extent([points], reach, false) ?? { low: 0, high: 1 }, false);
    const on = Number.isFinite(points.y[at]);
    dot.setAttribute("cx", ((Math.min(t.step ?? 0, reach.high) / reach.high) * WIDTH).toFixed(1));
    dot.setAttribute("cy", (on ? HEIGHT * (1 - (points.y[at] - range.low) / (range.high - range.low)) : HEIGHT).toFixed(1));
  };

  const point = (index: number | undefined): void => {
    hover = index;
    say();
    frame.request();
  };
  cleanup.dom(stage, "pointermove", (event) => {
    if (!chart) return;
    const part = (event.clientX - stage.getBoundingClientRect().left - chart.area.x) / chart.area.width;
    point(nearest(store.points, Math.min(1, Math.max(0, part)) * store.reach.high));
  });
  cleanup.dom(stage, "pointerleave", () => point(undefined));
  cleanup.dom(stage, "blur", () => point(undefined));
  cleanup.dom(stage, "keydown", (event) => {
    const { length } = store.points;
    const here = hover ?? nearest(store.points, trainingOf(model).step ?? 0);
    const by = event.shiftKey ? 20 : 1;
    const next = { ArrowRight: here + by, ArrowLeft: here - by, Home: 0, End: length - 1 }[event.key];
    if (event.key === "Escape" && hover !== undefined) point(undefined);
    else if (next === undefined || !length) return;
    else point(Math.min(length - 1, Math.max(0, next)));
    event.preventDefault();
    event.stopPropagation();
  });
  for (const trait of ["schedule_open", "schedule_log", "training"] as const) cleanup.model(model, `change:${trait}`, update);
  cleanup.add(store.listen(update));
  cleanup.add(() => {
    frame.cancel();
    surface.dispose();
  });
  return { opener, strip, update };
}
