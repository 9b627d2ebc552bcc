// The curve of a loss in a line of the side panel, drawn anew with each message: a path of at most 240 points.

import { element, svg } from "../../core/dom";
import type { Curve } from "./told";

const WIDTH = 240;
const HEIGHT = 36;

export interface Sparkline {
  root: HTMLElement;
  draw(curve: Curve | undefined): void;
}

export function sparkline(): Sparkline {
  const path = svg("path", { class: "gw-side-curve" });
  const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" });
  picture.append(path);
  const root = element("div", { class: "gw-side-spark", hidden: true });
  root.append(picture);
  return {
    root,
    draw(curve) {
      const text = curve ? pathOf(curve) : "";
      root.hidden = !text;
      path.setAttribute("d", text);
      root.dataset.points = String(curve?.steps.length ?? 0);
    },
  };
}

/** The path of a curve in the box; "" for fewer than two points. What is not finite is a gap. */
export function pathOf({ steps, losses }: Curve): string {
  const finite = losses.filter(Number.isFinite);
  if (finite.length < 2) return "";
  const [low, high] = finite.reduce(([a, b], y) => [Math.min(a, y), Math.max(b, y)], [Infinity, -Infinity]);
  const [first, last] = [steps[0], steps[steps.length - 1]];
  const every = Math.max(1, Math.ceil(steps.length / WIDTH));
  let text = "";
  let joined = false;
  for (let k = (steps.length - 1) % every; k < steps.length; k += every) {
    const y = losses[k];
    if (!Number.isFinite(y)) {
      joined = false;
      continue;
    }
    const across = (WIDTH * (steps[k] - first)) / (last - first || 1);
    const down = 2 + (HEIGHT - 4) * (high > low ? (high - y) / (high - low) : 0.5);
    text += `${joined ? "L" : "M"}${across.toFixed(1)} ${down.toFixed(1)}`;
    joined = true;
  }
  return text;
}
