// Where a label stands that tells of a thing in the drawing: beside it, over as little else as can be.

export type Rect = [x: number, y: number, width: number, height: number];

const GAP = 8;
const EDGE = 4;
/** What a pixel costs by which a place had to be moved into the window, and each place that is liked better, in pixels covered. */
const FAR = 2;
const LATER = 6;

/** The left and top of a label of this size within bounds, beside `thing`, clear of `others` as far as there is room. */
export function tipPlace([width, height]: [number, number], [right, bottom]: [number, number], thing: Rect, others: readonly Rect[]): [number, number] {
  const [x, y, w, h] = thing;
  const middle = y + h / 2 - height / 2;
  const center = x + w / 2 - width / 2;
  const wished: [number, number][] = [
    [x + w + GAP, middle], [x - width - GAP, middle], [center, y - height - GAP], [center, y + h + GAP], [x + w + GAP, y], [x + w + GAP, y + h - height],
    [x + w + GAP, y + h + GAP], [x + w + GAP, y - height - GAP], [x - width - GAP, y + h + GAP], [x - width - GAP, y - height - GAP], [x, y - height - GAP], [x, y + h + GAP],
  ];
  let best: [number, number] = [EDGE, EDGE];
  let least = Infinity;
  wished.forEach(([left, top], k) => {
    const at: [number, number] = [clamp(left, EDGE, right - width - EDGE), clamp(top, EDGE, bottom - height - EDGE)];
    const label: Rect = [...at, width, height];
    const moved = Math.abs(at[0] - left) + Math.abs(at[1] - top);
    const cost = others.reduce((sum, other) => sum + overlap(label, other), overlap(label, thing)) + FAR * moved + LATER * k;
    if (cost < least) [best, least] = [at, cost];
  });
  return best;
}

function clamp(value: number, low: number, high: number): number {
  return Math.max(low, Math.min(high, value));
}

/** The area that two rectangles share. */
export function overlap([x, y, w, h]: Rect, [x2, y2, w2, h2]: Rect): number {
  return Math.max(0, Math.min(x + w, x2 + w2) - Math.max(x, x2)) * Math.max(0, Math.min(y + h, y2 + h2) - Math.max(y, y2));
}
