// A small picture of a tensor: blue above zero, orange below, the ink where elements are NaN or infinite.

import { mixed, rgb } from "./colors";
import { element } from "./dom";
import type { Theme } from "./theme";

/** A canvas of one pixel per element; `levels` are bytes around 127, which is zero, and 255 where there is no number. */
export function thumb(levels: DataView | undefined, height: number, width: number, theme: Theme | undefined, name: string): HTMLCanvasElement {
  const canvas = element("canvas", { class: name, width: Math.max(1, width), height: Math.max(1, height), "aria-hidden": "true" });
  if (!levels || !theme || levels.byteLength < width * height || !width || !height) return canvas;
  const [zero, above, below, ink] = [theme.surface, theme.series[0], theme.series[1], theme.ink].map(rgb);
  const context = canvas.getContext("2d")!;
  const image = context.createImageData(width, height);
  for (let i = 0; i < width * height; i++) {
    const level = levels.getUint8(i);
    const share = Math.abs(level - 127) / 127;
    const end = level > 127 ? above : below;
    const color = level === 255 ? ink : share ? mixed(zero, end, 0.08 + 0.92 * share) : zero;
    image.data.set([...color, 255], 4 * i);
  }
  context.putImageData(image, 0, 0);
  return canvas;
}
