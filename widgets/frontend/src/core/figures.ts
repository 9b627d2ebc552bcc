// Small pictures of numbers: a line over the steps, and bars side by side.

import { svg } from "./dom";

/** A line through values, from the least to the largest of them; one that does not move lies in the middle. */
export function line(values: readonly number[], width: number, height: number, stepped = false): SVGElement {
  const root = svg("svg", { class: "gw-figure-line", width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
  const finite = values.filter(Number.isFinite);
  const [low, high] = [Math.min(...finite), Math.max(...finite)];
  if (finite.length < 2) return root;
  const x = (k: number): number => 1 + ((width - 2) * k) / (values.length - 1);
  const y = (value: number): number => (high > low ? 2 + (height - 4) * (1 - (value - low) / (high - low)) : height / 2);
  let path = "";
  let last = NaN;
  values.forEach((value, k) => {
    const at = `${x(k).toFixed(1)} ${y(value).toFixed(1)}`;
    if (Number.isFinite(value)) path += Number.isNaN(last) ? `M${at}` : stepped ? `H${x(k).toFixed(1)}V${y(value).toFixed(1)}` : `L${at}`;
    last = Number.isFinite(value) ? value : NaN;
  });
  root.append(svg("path", { d: path }));
  return root;
}

/** Bars side by side, none wider than 24 pixels; `title` says what each is. */
export function bars(values: readonly number[], width: number, height: number, label: string, title: (value: number, k: number) => string): SVGElement {
  const root = svg("svg", { class: "gw-figure-bars", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  const most = Math.max(...values) || 1;
  const step = Math.min(24, width / values.length);
  values.forEach((value, k) => {
    const high = Math.max(1, (height * value) / most) || 1;
    const bar = svg("rect", { x: k * step, y: height - high, width: Math.max(1, step - 2), height: high, rx: 1 });
    const words = svg("title", {});
    words.textContent = title(value, k);
    bar.append(words);
    root.append(bar);
  });
  return root;
}
