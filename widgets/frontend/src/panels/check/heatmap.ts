// The errors of a parameter's elements as a map: rows along the first axis, all other axes side by side.

import { Cleanup } from "../../core/afm";
import { along, cssOf, mixed, rgb } from "../../core/colors";
import { element, everyFrame, Surface } from "../../core/dom";
import { themeOf, type Theme } from "../../core/theme";
import { VERDICTS, type ElementMap } from "./store";
import { SIGNS } from "./words";

const LARGEST = 30; // pixels of a cell
const LEAST = 5; // of a checked element, however small its cell is
const DECADES = 12; // from 1e-12 to 1

const ONE_ROW = 24; // elements

/** A large 1-d parameter wraps into rows. */
export function gridOf(shape: readonly number[], aspect: number): { rows: number; columns: number } {
  const size = shape.reduce((a, b) => a * b, 1);
  if (shape.length < 2) {
    const columns = size <= ONE_ROW ? size : Math.min(size, Math.ceil(Math.sqrt(size * aspect)));
    return { rows: Math.max(1, Math.ceil(size / Math.max(1, columns))), columns: Math.max(1, columns) };
  }
  return { rows: Math.max(1, shape[0]), columns: Math.max(1, size / Math.max(1, shape[0])) };
}

/** Index of the element that stands at a place in memory. */
export function indexOf(at: number, shape: readonly number[]): number[] {
  const index: number[] = [];
  for (let k = shape.length - 1; k >= 0; k--) {
    index.unshift(at % shape[k]);
    at = Math.floor(at / shape[k]);
  }
  return index;
}

export const placeOf = (index: readonly number[], shape: readonly number[]): number => index.reduce((at, i, k) => at * shape[k] + i, 0);

/** 0 for errors of 1e-12 and less, 1 for errors of 1 and more. */
export function heat(error: number): number {
  return Math.min(1, Math.max(0, 1 + Math.log10(Math.max(error, 1e-300)) / DECADES));
}

export function heatColor(share: number, { series, surface }: Theme): string {
  return cssOf(along([mixed(rgb(surface), rgb(series[0]), 0.3), rgb(series[4]), rgb(series[1])], share));
}

export interface Heatmap {
  show(map: ElementMap | undefined, chosen: number): void;
  dispose(): void;
}

/** `onHover` is told the number of the checked element under the pointer or the keyboard's cursor, `onPick` of a click. */
export function heatmap(host: HTMLElement, onHover: (k: number) => void, onPick: (k: number) => void): Heatmap {
  const cleanup = new Cleanup();
  const stage = element("div", { class: "gw-map", role: "application", tabindex: 0, "aria-label": "Map of errors: arrow keys move, Enter opens" });
  host.append(stage);
  let map: ElementMap | undefined;
  let chosen = -1; // numbers of checked elements
  let cursor = -1;
  let hatched: { theme: Theme; pattern: CanvasPattern } | undefined;
  const frame = everyFrame(draw);
  const theme = themeOf(stage, cleanup, frame.request);
  const surface = new Surface(stage, () => draw());

  const layout = (): { columns: number; rows: number; w: number; h: number } => {
    const { rows, columns } = gridOf(map!.shape, surface.width / Math.max(1, surface.height));
    return { rows, columns, w: Math.min(LARGEST, (surface.width - 2) / columns), h: Math.min(LARGEST, (surface.height - 2) / rows) };
  };

  const center = (k: number): [number, number] => {
    const { columns, w, h } = layout();
    const at = map!.at[k];
    return [1 + ((at % columns) + 0.5) * w, 1 + (Math.floor(at / columns) + 0.5) * h];
  };

  function draw(): void {
    const colors = theme();
    if (!colors || !surface.begin() || !map) return;
    const { context } = surface;
    if (hatched?.theme !== colors) hatched = { theme: colors, pattern: hatch(context, colors) };
    const { rows, columns, w, h } = layout();
    const size = map.shape.reduce((a, b) => a * b, 1);
    const last = size % columns;
    context.fillStyle = hatched.pattern;
    context.fillRect(1, 1, columns * w, (last ? rows - 1 : rows) * h);
    if (last) context.fillRect(1, 1 + (rows - 1) * h, last * w, h);
    const [cellW, cellH] = [Math.max(w - (w > 4 ? 1 : 0), LEAST), Math.max(h - (h > 4 ? 1 : 0), LEAST)];
    const signs = Math.min(cellW, cellH) >= 10;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.font = `${Math.min(12, 0.8 * Math.min(cellW, cellH))}px ${colors.font}`;
    const order = [...map.at.keys()].sort((a, b) => rank(a) - rank(b)); // what matters covers what does not
    for (const k of order) {
      const [x, y] = center(k);
      const verdict = map.verdicts[k];
      const lost = Number.isNaN(map.errors[k]);
      context.fillStyle =
        verdict === "kink" ? colors.category("constant")
        : verdict === "unclear" ? colors.category("random")
        : verdict === "surrogate" ? colors.category("norm")
        : lost ? colors.ink
        : heatColor(heat(map.errors[k]), colors);
      context.fillRect(x - cellW / 2, y - cellH / 2, cellW, cellH);
      if (!signs || verdict === "ok") continue;
      context.fillStyle = colors.surface;
      context.fillText(lost && verdict === "fail" ? "N" : SIGNS[verdict], x, y);
    }
    for (const [k, color, width] of [[chosen, colors.accent, 2], [cursor, colors.ink, 1]] as const) {
      if (k < 0 || k >= map.at.length) continue;
      const [x, y] = center(k);
      context.strokeStyle = color;
      context.lineWidth = width;
      context.strokeRect(x - cellW / 2 - 1.5, y - cellH / 2 - 1.5, cellW + 3, cellH + 3);
    }
  }

  const rank = (k: number): number => VERDICTS.indexOf(map!.verdicts[k]) * 2 + (Number.isNaN(map!.errors[k]) ? 2 : Math.min(1, map!.errors[k]));

  const nearest = (x: number, y: number): number => {
    if (!map) return -1;
    let found = -1;
    let least = Infinity;
    const { w, h } = layout();
    for (let k = 0; k < map.at.length; k++) {
      const [cx, cy] = center(k);
      const apart = Math.max(Math.abs(cx - x) - w / 2, Math.abs(cy - y) - h / 2);
      if (apart < least) [found, least] = [k, apart];
    }
    return least < 8 ? found : -1;
  };

  const move = (k: number): void => {
    if (k === cursor) return;
    cursor = k;
    onHover(k);
    frame.request();
  };
  const under = (event: PointerEvent | MouseEvent): number => {
    const { left, top } = stage.getBoundingClientRect();
    return nearest(event.clientX - left, event.clientY - top);
  };
  cleanup.dom(stage, "pointermove", (event) => move(under(event)));
  cleanup.dom(stage, "pointerleave", () => move(-1));
  cleanup.dom(stage, "click", (event) => {
    const k = under(event);
    if (k >= 0) onPick(k);
  });
  cleanup.dom(stage, "keydown", (event) => {
    if (!map || !map.at.length) return;
    const from = cursor >= 0 ? cursor : Math.max(0, chosen);
    const { columns } = layout();
    const sideways = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const along = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (sideways) move(Math.min(map.at.length - 1, Math.max(0, from + (cursor < 0 ? 0 : sideways))));
    else if (along) {
      // The nearest checked element of another row.
      const row = Math.floor(map.at[from] / columns);
      const better = [...map.at.keys()].filter((k) => (Math.floor(map!.at[k] / columns) - row) * along > 0);
      const cost = (k: number): number => Math.abs(Math.floor(map!.at[k] / columns) - row) * columns * 2 + Math.abs((map!.at[k] % columns) - (map!.at[from] % columns));
      if (better.length) move(better.reduce((a, b) => (cost(b) < cost(a) ? b : a)));
    } else if (event.key === "Enter" || event.key === " ") onPick(from);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  return {
    show(next, at) {
      if (next?.name !== map?.name) cursor = -1;
      map = next;
      chosen = map ? map.at.indexOf(at) : -1;
      // What says what the cells are stands right below them; many of a 1-d parameter wrap into the room there is.
      const rows = !map ? 0 : map.shape.length > 1 ? gridOf(map.shape, 1).rows : map.shape[0] > ONE_ROW ? 0 : 1;
      host.style.maxHeight = rows ? `${rows * LARGEST + 2}px` : "";
      frame.request();
    },
    dispose() {
      cleanup.run();
      frame.cancel();
      surface.dispose();
      stage.remove();
    },
  };
}

/** Diagonal lines: elements that were not checked. */
function hatch(context: CanvasRenderingContext2D, { line, surface }: Theme): CanvasPattern {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const pen = tile.getContext("2d")!;
  pen.fillStyle = surface;
  pen.fillRect(0, 0, 6, 6);
  pen.strokeStyle = line;
  pen.lineWidth = 1;
  pen.beginPath();
  for (const k of [-6, 0, 6]) {
    pen.moveTo(k - 1, 7);
    pen.lineTo(k + 7, -1);
  }
  pen.stroke();
  return context.createPattern(tile, "repeat")!;
}
