// What a run has recorded, as columns that grow with each answer of the server.

/** A column a metric, and `step`, `epoch` and `seconds`; null is NaN, text is infinite. */
export type Columns = Record<string, (number | string | null)[]>;

export interface Recorded {
  /** Byte of the events up to which all has been read. */
  next: number;
  steps: Columns;
  epochs: Columns;
}

export const NEW: Recorded = { next: 0, steps: {}, epochs: {} };
const PLACE = ["step", "epoch", "seconds"];
const MOST = 10_000; // points of a curve

interface News {
  next: number;
  /** Rows after these count no more: a training went on from an earlier checkpoint. */
  cut: { step: number; epoch: number } | null;
  steps: Columns;
  epochs: Columns;
}

/** A recording with what has come since. */
export function added(held: Recorded, { next, cut, steps, epochs }: News): Recorded {
  return { next, steps: joined(held.steps, steps, "step", cut?.step), epochs: joined(held.epochs, epochs, "epoch", cut?.epoch) };
}

function joined(held: Columns, news: Columns, by: "step" | "epoch", most = Infinity): Columns {
  const before = held[by] ?? [];
  const kept = most === Infinity ? before.length : before.filter((at) => Number(at) <= most).length; // they rise
  const names = [...new Set([...Object.keys(held), ...Object.keys(news)])];
  const more = news[by]?.length ?? 0;
  const part = (columns: Columns, name: string, count: number): Columns[string] => columns[name]?.slice(0, count) ?? Array<null>(count).fill(null);
  return Object.fromEntries(names.map((name) => [name, [...part(held, name, kept), ...part(news, name, more)]]));
}

const EACH = "each step: ";

/** What runs have measured, of epochs and then of steps. */
export function metricsOf(runs: readonly Recorded[]): string[] {
  const own = (columns: Columns): string[] => Object.keys(columns).filter((name) => !PLACE.includes(name));
  return [...new Set([...runs.flatMap(({ epochs }) => own(epochs)), ...runs.flatMap(({ steps }) => own(steps).map((name) => EACH + name))])];
}

/** A metric over an axis, every so many points where there are too many. */
export function points({ steps, epochs }: Recorded, metric: string, axis: "step" | "epoch" | "seconds"): { x: number[]; y: number[] } {
  const each = metric.startsWith(EACH);
  const table = each ? steps : epochs;
  const values = table[each ? metric.slice(EACH.length) : metric];
  if (!values) return { x: [], y: [] };
  const places = (table[axis] ?? []).map(Number);
  const x = each && axis === "epoch" ? spread(places) : places;
  const every = Math.max(1, Math.ceil(values.length / MOST));
  const chosen = (_: unknown, k: number): boolean => k % every === (values.length - 1) % every;
  return { x: x.filter(chosen), y: values.filter(chosen).map((value) => (value === null ? NaN : Number(value))) };
}

/** Numbers of epochs as shares of them: 1, 1, 2, 2 as 0.5, 1, 1.5, 2. */
export function spread(epochs: readonly number[]): number[] {
  const out: number[] = [];
  for (let first = 0; first < epochs.length; ) {
    let end = first;
    while (end < epochs.length && epochs[end] === epochs[first]) end++;
    for (let k = first; k < end; k++) out.push(epochs[first] - 1 + (k - first + 1) / (end - first));
    first = end;
  }
  return out;
}
