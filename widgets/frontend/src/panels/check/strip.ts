// The strip of a watch: a dot for each look by its step and its error, on a logarithmic scale, and under it a band up to
// the error that would have passed. What is above the band is wrong.

import { LOOKS, type Look, type WatchStore } from "./watch_store";
import type { Cleanup } from "../../core/afm";
import { element, everyFrame, Surface } from "../../core/dom";
import { compact, grouped, minus } from "../../core/format";
import { themeOf, type Theme } from "../../core/theme";
import { decades, ticks } from "../../core/ticks";

const LEFT = 44;
const RIGHT = 10;
const TOP = 8;
const BOTTOM = 18;
/** Errors below have no place of their own: they are nothing in float64. */
const LEAST = 1e-17;
/** Steps of the band, px. */
const BIN = 6;
const NEAR = 24;

export interface Strip {
  root: HTMLElement;
  update(): void;
}

/** Where looks stand: steps from left to right, errors from the least to the largest, which at least reach from one to the other. */
export class Scales {
  readonly first: number;
  readonly last: number;
  readonly low: number;
  readonly high: number;

  constructor(looks: readonly Look[], readonly width: number, readonly height: number) {
    let [low, high] = [1e-10, 1e-5];
    for (const { error, noise } of looks) {
      for (const value of [error, noise]) {
        if (!Number.isFinite(value) || value <= 0) continue;
        low = Math.min(low, value);
        high = Math.max(high, value);
      }
    }
    this.low = Math.max(LEAST, low / 3);
    this.high = high * 3;
    this.first = looks[0]?.step ?? 0;
    this.last = Math.max(this.first + 1, looks[looks.length - 1]?.step ?? 1);
  }

  x(step: number): number {
    return LEFT + ((step - this.first) / (this.last - this.first)) * (this.width - LEFT - RIGHT);
  }

  /** What is 0 is at the bottom, what is not finite at the top. */
  y(value: number): number {
    const held = Math.min(this.high, Math.max(this.low, value));
    const part = Math.log(held / this.low) / Math.log(this.high / this.low);
    return this.height - BOTTOM - part * (this.height - BOTTOM - TOP);
  }

  /** The look nearest to a point, if it is near. */
  nearest(looks: readonly Look[], x: number, y: number): Look | undefined {
    let [best, least] = [undefined as Look | undefined, NEAR];
    for (const look of looks) {
      const far = Math.hypot(this.x(look.step) - x, (this.y(look.error) - y) / 2); // the eye looks for a step first
      if (far <= least) [best, least] = [look, far];
    }
    return best;
  }
}

export function mountStrip(store: WatchStore, cleanup: Cleanup, point: (look: Look | undefined) => void, click: (look: Look) => void): Strip {
  const root = element("div", { class: "gw-watch-strip", role: "img", tabindex: 0 });
  const frame = everyFrame(draw);
  const theme = themeOf(root, cleanup, frame.request);
  const surface = new Surface(root, () => draw());
  let scales: Scales | undefined;
  let hovered: Look | undefined;

  function draw(): void {
    const colors = theme();
    scales = undefined;
    if (root.hidden || !colors || !surface.begin()) return;
    scales = new Scales(store.looks, surface.width, surface.height);
    paintStrip(surface.context, store, scales, colors, hovered);
  }

  function hover(look: Look | undefined): void {
    if (look === hovered) return;
    hovered = look;
    root.style.cursor = look ? "pointer" : "";
    point(look);
    frame.request();
  }

  const at = (event: MouseEvent): Look | undefined => {
    const box = root.getBoundingClientRect();
    return scales?.nearest(store.looks, event.clientX - box.left, event.clientY - box.top);
  };
  cleanup.dom(root, "pointermove", (event) => hover(at(event)));
  cleanup.dom(root, "pointerleave", () => hover(undefined));
  cleanup.dom(root, "blur", () => hover(undefined));
  cleanup.dom(root, "click", (event) => {
    const look = at(event);
    if (look) click(look);
  });
  cleanup.dom(root, "keydown", (event) => {
    const { looks } = store;
    const here = hovered ? looks.indexOf(hovered) : looks.length;
    const next = { ArrowLeft: here - 1, ArrowRight: here + 1, Home: 0, End: looks.length - 1 }[event.key];
    if (event.key === "Enter" && hovered) click(hovered);
    else if (event.key === "Escape" && hovered) hover(undefined);
    else if (next === undefined || !looks.length) return;
    else hover(looks[Math.min(looks.length - 1, Math.max(0, next))]);
    event.preventDefault();
    event.stopPropagation();
  });
  cleanup.add(() => {
    frame.cancel();
    surface.dispose();
  });
  return {
    root,
    update() {
      const wrong = store.looks.filter(({ verdict }) => verdict === "fail").length;
      const last = store.looks[store.looks.length - 1];
      root.setAttribute("aria-label", `Errors of ${grouped(store.looks.length)} looks at gradients up to step ${grouped(last?.step ?? 0)}, ${wrong ? `${grouped(wrong)} above noise` : "none above noise"}; arrow keys read them one by one`);
      frame.request();
    },
  };
}

/** The worst look of each step of the band; where there is none, the band goes on as before. */
export function band(looks: readonly Look[], scales: Scales): { x: number; noise: number }[] {
  const bins = new Map<number, number>();
  for (const { step, noise } of looks) {
    const bin = Math.floor(scales.x(step) / BIN);
    if (Number.isFinite(noise) && noise > 0) bins.set(bin, Math.max(bins.get(bin) ?? 0, noise));
  }
  return [...bins].sort((a, b) => a[0] - b[0]).map(([bin, noise]) => ({ x: bin * BIN, noise }));
}

function paintStrip(context: CanvasRenderingContext2D, { looks, facts }: WatchStore, scales: Scales, theme: Theme, hovered: Look | undefined): void {
  const { width, height } = scales;
  const floor = height - BOTTOM;
  const wrong = theme.category("loss");
  const colors: Record<Look["verdict"], string> = { ok: theme.category("activation"), kink: theme.category("parameter"), unclear: theme.category("random"), surrogate: theme.category("norm"), fail: wrong };
  context.font = `10px ${theme.font}`;
  context.textBaseline = "middle";
  context.lineWidth = 1;
  context.fillStyle = theme.quiet;
  context.strokeStyle = theme.line;
  for (const value of decades(scales.low, scales.high, 3)) {
    const y = Math.round(scales.y(value)) + 0.5;
    line(context, LEFT, y, width - RIGHT, y);
    context.textAlign = "right";
    context.fillText(minus(value.toExponential(0).replace("+", "")), LEFT - 6, y);
  }
  context.textAlign = "center";
  for (const step of ticks(scales.first, scales.last, Math.max(2, Math.floor(width / 90))).filter(Number.isInteger)) {
    context.fillText(compact(step), Math.min(width - RIGHT - 8, Math.max(LEFT + 4, scales.x(step))), height - 7);
  }

  const steps = band(looks, scales);
  context.globalAlpha = 0.16;
  context.fillStyle = theme.category("constant");
  steps.forEach(({ x, noise }, k) => {
    const left = k ? Math.max(LEFT, x) : LEFT;
    const right = k + 1 < steps.length ? Math.max(LEFT, steps[k + 1].x) : width - RIGHT;
    context.fillRect(left, scales.y(noise), right - left, floor - scales.y(noise));
  });
  context.globalAlpha = 1;
  if (steps.length) {
    context.fillStyle = theme.quiet;
    context.textAlign = "left";
    context.fillText("noise", LEFT + 4, Math.min(floor - 8, scales.y(steps[0].noise) + 8));
  }
  context.globalAlpha = 0.6;
  context.strokeStyle = wrong;
  context.setLineDash([3, 3]);
  for (const { step } of facts?.alarms ?? []) line(context, scales.x(step), TOP, scales.x(step), floor);
  context.setLineDash([]);
  context.globalAlpha = 1;
  for (const verdict of LOOKS) { // the worst on top
    context.fillStyle = colors[verdict];
    for (const look of looks) {
      if (look.verdict !== verdict) continue;
      dot(context, scales, look, verdict === "fail" ? 3.5 : 1.8);
    }
  }
  if (!hovered) return;
  context.strokeStyle = theme.ink;
  context.lineWidth = 1.5;
  context.beginPath();
  context.arc(scales.x(hovered.step), scales.y(hovered.error), 5, 0, 2 * Math.PI);
  context.stroke();
  const y = scales.y(hovered.noise);
  line(context, scales.x(hovered.step) - 6, y, scales.x(hovered.step) + 6, y);
}

function dot(context: CanvasRenderingContext2D, scales: Scales, look: Look, radius: number): void {
  context.beginPath();
  context.arc(scales.x(look.step), scales.y(look.error), radius, 0, 2 * Math.PI);
  context.fill();
}

function line(context: CanvasRenderingContext2D, x0: number, y0: number, x1: number, y1: number): void {
  context.beginPath();
  context.moveTo(x0, y0);
  context.lineTo(x1, y1);
  context.stroke();
}
