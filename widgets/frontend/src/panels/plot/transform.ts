// What a curve is turned into before it is drawn: smoothed, and over epochs or seconds instead of steps.

import type { PlotStore, Series } from "./series";

interface Average {
  weight: number;
  values: Float64Array;
  done: number;
  mean: number;
  bias: number;
}

const averages = new WeakMap<Series, Average>();

/** Exponential moving average without its bias to zero; goes on where it was when points have been added. */
export function smooth(series: Series, weight: number): Float64Array {
  let held = averages.get(series);
  if (!held || held.weight !== weight) held = { weight, values: new Float64Array(0), done: 0, mean: 0, bias: 1 };
  averages.set(series, held);
  if (held.values.length < series.length) {
    const values = new Float64Array(series.x.length);
    values.set(held.values.subarray(0, held.done));
    held.values = values;
  }
  for (; held.done < series.length; held.done++) {
    const value = series.y[held.done];
    if (Number.isFinite(value)) {
      held.mean = weight * held.mean + (1 - weight) * value;
      held.bias *= weight;
    }
    held.values[held.done] = Number.isFinite(value) ? held.mean / (1 - held.bias) : value;
  }
  return held.values;
}

/** Whether the steps of the present run can be told in epochs, or in seconds. */
export function hasAxis(store: PlotStore, kind: string): boolean {
  return kind === "step" || store.placed || !!store.axis(kind, 0)?.length || (kind === "epoch" && store.perEpoch[0] > 0);
}

const moved = new WeakMap<Series, { key: string; x: Float64Array }>();

/** The x of all points on an axis. Between known points it is interpolated; the epoch that has no end goes on at its pace. */
export function onAxis(store: PlotStore, series: Series, kind: string): Float64Array {
  if (kind === "step" || store.placed) return series.x;
  const axis = store.axis(kind, series.age);
  const perEpoch = (kind === "epoch" && store.perEpoch[series.age]) || 0;
  const key = `${kind} ${series.length} ${axis?.length} ${perEpoch}`;
  const held = moved.get(series);
  if (held?.key === key) return held.x;
  const x = new Float64Array(series.length);
  let [left, below, k] = [0, 0, 0];
  for (let i = 0; i < series.length; i++) {
    const step = series.x[i];
    for (; axis && k < axis.length && axis.x[k] < step; k++) [left, below] = [axis.x[k], axis.y[k]];
    if (axis && k < axis.length) x[i] = below + ((step - left) / (axis.x[k] - left || 1)) * (axis.y[k] - below);
    else x[i] = below + (perEpoch ? Math.min(1, (step - left) / perEpoch) : 0);
  }
  moved.set(series, { key, x });
  return x;
}
