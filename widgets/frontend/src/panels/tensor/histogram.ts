// How often which values occur, as bars.

import type { Surface } from "../../core/dom";
import { compact } from "../../core/format";
import type { Theme } from "../../core/theme";
import type { Scale } from "./colors";
import type { TensorFacts } from "./picture";

const FOOT = 15;

/** Bars of the finite values in the colours of the picture; with `log` their heights are logarithms of the counts. */
export function drawHistogram(surface: Surface, theme: Theme, facts: TensorFacts, scale: Scale | undefined, log: boolean): void {
  if (!surface.begin() || !facts.counts.length) return;
  const { context, width, height } = surface;
  const size = (count: number): number => (log ? Math.log10(1 + count) : count);
  const most = size(Math.max(...facts.counts));
  const room = height - FOOT - 2;
  const wide = width / facts.counts.length;
  const [low, high] = [facts.low!, facts.high!];
  const whole = facts.counts.length === high - low + 1;
  facts.counts.forEach((count, k) => {
    if (!count) return;
    const tall = Math.max(1, (size(count) / most) * room);
    context.fillStyle = theme.series[0];
    context.fillRect(k * wide, 2 + room - tall, Math.max(0.5, wide - (wide > 3 ? 1 : 0)), tall);
    // A foot in the colour that the picture gives to these values.
    if (scale) {
      context.fillStyle = scale.css(whole ? low + k : low + ((k + 0.5) / facts.counts.length) * (high - low));
      context.fillRect(k * wide, 2 + room, Math.ceil(wide), 3);
    }
  });
  context.fillStyle = theme.line;
  context.fillRect(0, 2 + room, width, 1);
  context.font = `10px ${theme.font}`;
  context.textBaseline = "alphabetic";
  context.fillStyle = theme.quiet;
  context.textAlign = "left";
  context.fillText(compact(low), 0, height - 1);
  context.textAlign = "right";
  context.fillText(compact(high), width, height - 1);
  const zero = (0 - low) / (high - low);
  if (zero > 0.2 && zero < 0.8) {
    context.textAlign = "center";
    context.fillText("0", zero * width, height - 1);
  }
}
