// Live curves: one small chart per quantity with training and validation together, all over the same steps.

import { Cleanup, type Model } from "../ui/afm";
import { element, everyFrame, Surface } from "../ui/dom";
import { readTheme, watchTheme } from "../ui/theme";
import { Chart, valueRange, type Area, type Stroke } from "./chart";
import { addStyle } from "../ui/style";
import css from "./plot.css";
import { PlotStore, type PlotMessage, type Series } from "./series";
import { compact } from "../ui/format";

addStyle(css);

const LEFT = 52;
const RIGHT = 14;
const TITLE = 24;
const BOTTOM = 22;
const LEAST = 76; // height of a chart; more charts than fit make the panel scroll
const DASHES = [[], [5, 3], [2, 2], [8, 3, 2, 3]];

/** Keeps what the kernel sends from the moment the model exists, and asks for the rest. */
export function plotStore(model: Model): PlotStore {
  const store = new PlotStore();
  model.on("msg:custom", (content: { kind?: string }, buffers: DataView[]) => {
    if (content.kind === "plot" && !store.take(content as PlotMessage, buffers)) model.send({ kind: "plot.sync" });
  });
  model.send({ kind: "plot.sync" });
  return store;
}

export function mountPlotPanel(host: HTMLElement, model: Model, store: PlotStore): () => void {
  const cleanup = new Cleanup();
  const status = element("span", { class: "gw-subtitle", role: "status" });
  const stage = element("div", { class: "gw-plot-stage", role: "img" });
  const scroll = element("div", { class: "gw-plot-scroll" }, stage);
  const empty = element("div", { class: "gw-empty" }, "Curves appear here as soon as training starts.");
  const root = element(
    "section",
    { class: "gw-plot", "aria-label": "Training curves" },
    element("header", { class: "gw-toolbar" }, element("span", { class: "gw-title" }, "Training"), element("span", { class: "gw-space" }), status),
    scroll,
    empty,
  );
  host.append(root);
  let theme = readTheme(root);
  let hoverX: number | undefined;
  const frame = everyFrame(draw);
  const surface = new Surface(stage, () => draw());
  let charts: { chart: Chart; area: Area }[] = [];

  const groups = (): Map<string, Series[]> => {
    const found = new Map<string, Series[]>();
    for (const series of store.series) {
      const list = found.get(series.panel);
      if (list) list.push(series);
      else found.set(series.panel, [series]);
    }
    return found;
  };

  function draw(): void {
    const panels = groups();
    empty.hidden = panels.size > 0;
    root.dataset.points = String(store.series.reduce((sum, { length }) => sum + length, 0));
    scroll.style.setProperty("--gw-plot-height", `${panels.size * LEAST}px`);
    const colors = (theme ??= readTheme(root));
    if (!colors || !surface.begin() || !panels.size) return;
    const names = [...new Set(store.series.map(({ name }) => name))];
    const height = (surface.height - BOTTOM) / panels.size;
    const all = store.series.filter(({ length }) => length > 0);
    const low = Math.min(...all.map(({ x }) => x[0]));
    const high = Math.max(...all.map(({ x, length }) => x[length - 1]));
    const x = { low, high: high > low ? high : low + 1 };
    charts = [];
    [...panels].forEach(([title, series], k) => {
      const area = { x: LEFT, y: k * height + TITLE, width: Math.max(10, surface.width - LEFT - RIGHT), height: Math.max(10, height - TITLE - 6) };
      const chart = new Chart(surface.context, colors, area, x, valueRange(series));
      charts.push({ chart, area });
      chart.grid(k === panels.size - 1);
      if (hoverX !== undefined) chart.crosshair(hoverX);
      for (const one of series) chart.line(one, stroke(names, one.name));
      heading(title, series, names, area);
    });
    stage.setAttribute("aria-label", describe(panels));
  }

  /** Looks follow the name of a curve, so that they agree between charts; single steps stay behind their means. */
  function stroke(names: string[], name: string): Stroke {
    const { series } = theme!;
    if (name === "step") return { color: series[0], dash: [], width: 1, opacity: names.includes("train") ? 0.45 : 0.8 };
    const known = ["train", "validation"];
    const k = known.includes(name) ? known.indexOf(name) : 2 + names.filter((n) => n !== "step" && !known.includes(n)).indexOf(name);
    return { color: series[k % series.length], dash: DASHES[k % DASHES.length], width: 1.6, opacity: 1 };
  }

  /** The quantity on the left, each curve with its value, the last one or the one under the pointer, on the right. */
  function heading(title: string, series: Series[], names: string[], area: Area): void {
    const { context } = surface;
    const { font, ink, quiet } = theme!;
    const y = area.y - TITLE / 2;
    context.textBaseline = "middle";
    context.textAlign = "left";
    context.font = `600 11.5px ${font}`;
    context.fillStyle = ink;
    context.fillText(title, 12, y);
    const titleEnd = 12 + context.measureText(title).width;
    let right = area.x + area.width;
    context.textAlign = "right";
    for (const one of [...series].reverse()) {
      const i = hoverX === undefined ? one.length - 1 : one.nearest(hoverX);
      if (i < 0) continue;
      // Steps share the colour of their means and need no entry of their own beside them.
      if (one.name === "step" && series.some(({ name }) => name === "train")) continue;
      if (hoverX !== undefined) charts[charts.length - 1].chart.dot(one.x[i], one.y[i], stroke(names, one.name).color, 3);
      context.font = `600 11px ${font}`;
      context.fillStyle = ink;
      const value = compact(one.y[i]);
      context.fillText(value, right, y);
      right -= context.measureText(value).width + 6;
      context.font = `11px ${font}`;
      context.fillStyle = quiet;
      context.fillText(one.name, right, y);
      right -= context.measureText(one.name).width + 6;
      if (right - 16 < titleEnd) break;
      const { color, dash, opacity } = stroke(names, one.name);
      context.strokeStyle = color;
      context.globalAlpha = opacity;
      context.lineWidth = 2;
      context.setLineDash(dash);
      context.beginPath();
      context.moveTo(right - 16, y);
      context.lineTo(right, y);
      context.stroke();
      context.setLineDash([]);
      context.globalAlpha = 1;
      right -= 30;
    }
  }

  function describe(panels: Map<string, Series[]>): string {
    const parts = [...panels].flatMap(([title, series]) => series.filter((s) => s.length).map((s) => `${title} ${s.name} ${compact(s.y[s.length - 1])}`));
    return `Training curves; last values: ${parts.join(", ")}`;
  }

  cleanup.dom(stage, "pointermove", (event) => {
    if (!charts.length) return;
    const { area } = charts[0];
    const at = event.clientX - stage.getBoundingClientRect().left;
    const longest = store.series.reduce((a, b) => (b.length > a.length ? b : a));
    const span = longest.x[longest.length - 1] - longest.x[0];
    const i = longest.nearest(longest.x[0] + ((at - area.x) / area.width) * span);
    hoverX = at < area.x - 4 || i < 0 ? undefined : longest.x[i];
    frame.request();
  });
  cleanup.dom(stage, "pointerleave", () => {
    hoverX = undefined;
    frame.request();
  });
  const onStatus = (): void => {
    status.textContent = String(model.get("status") ?? "");
  };
  cleanup.model(model, "change:status", onStatus);
  cleanup.add(store.listen(frame.request));
  cleanup.add(watchTheme(() => {
    theme = undefined;
    frame.request();
  }));
  cleanup.add(() => {
    frame.cancel();
    surface.dispose();
    root.remove();
  });
  onStatus();
  frame.request();
  return () => cleanup.run();
}
