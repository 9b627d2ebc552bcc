// Points of a curve in growing typed arrays, and the messages that bring them.

export class Series {
  x = new Float64Array(256);
  y = new Float64Array(256);
  length = 0;

  constructor(readonly panel: string, readonly name: string) {}

  /** Writes points from index `start` on; false if that would leave a hole. */
  write(start: number, x: Float64Array, y: Float64Array): boolean {
    if (start > this.length) return false;
    const end = start + x.length;
    if (end > this.x.length) {
      const room = Math.max(end, 2 * this.x.length);
      this.x = grown(this.x, room);
      this.y = grown(this.y, room);
    }
    this.x.set(x, start);
    this.y.set(y, start);
    this.length = Math.max(this.length, end);
    return true;
  }

  /** Index of the point nearest to a place on the x axis; -1 without points. */
  nearest(x: number): number {
    let low = 0;
    let high = this.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.x[middle] < x) low = middle + 1;
      else high = middle;
    }
    return low > 0 && x - this.x[low - 1] < this.x[low] - x ? low - 1 : high < 0 ? -1 : low;
  }
}

function grown(values: Float64Array, room: number): Float64Array<ArrayBuffer> {
  const out = new Float64Array(room);
  out.set(values);
  return out;
}

/** `x` and `y` of all parts follow each other in the two buffers of the message, as float64. */
export interface PlotMessage {
  kind: "plot";
  /** Counts resets: points of an earlier run are dropped when it changes. */
  run: number;
  series: { panel: string; name: string }[];
  parts: { series: number; start: number; count: number }[];
}

/** Everything plotted so far. It belongs to the model, so it outlives views that come and go. */
export class PlotStore {
  run = -1;
  series: Series[] = [];
  private readonly listeners = new Set<() => void>();

  /** Takes a message; false if points are missing and the kernel has to be asked for all of them. */
  take(message: PlotMessage, buffers: DataView[]): boolean {
    if (message.run !== this.run) {
      this.run = message.run;
      this.series = [];
    }
    for (let k = this.series.length; k < message.series.length; k++) {
      this.series.push(new Series(message.series[k].panel, message.series[k].name));
    }
    const [xs, ys] = buffers.map((b) => new Float64Array(b.buffer.slice(b.byteOffset, b.byteOffset + b.byteLength) as ArrayBuffer));
    let complete = true;
    let at = 0;
    for (const { series, start, count } of message.parts) {
      complete = this.series[series].write(start, xs.subarray(at, at + count), ys.subarray(at, at + count)) && complete;
      at += count;
    }
    for (const listener of this.listeners) listener();
    return complete;
  }

  listen(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
}
