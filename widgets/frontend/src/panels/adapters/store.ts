// What the kernel has measured of adapters: at some steps the norm and the rank of each place, and its singular values as they are now.

import type { Model } from "../../core/afm";
import type { Told } from "../../core/contract";
import { followed, Store } from "../../core/store";

interface Deltas {
  kind: Told;
  layout: number;
  start: number;
  keys: [adapter: string, place: string][];
  steps: number[];
  /** How many singular values of each place there are; NaN where it has fewer. */
  values: number;
}

export class DeltaStore extends Store<Deltas> {
  steps: number[] = [];
  private places = new Map<string, number>();
  private norms: Float32Array[] = [];
  private ranks: Float32Array[] = [];
  private spectra = new Float32Array(0);
  private values = 0;
  private layout = -1;

  protected read({ layout, start, keys, steps, values }: Deltas, buffers: DataView[]): boolean {
    if (start > (layout === this.layout ? this.steps.length : 0)) return false;
    const [norms, ranks, spectra] = buffers.map(({ buffer, byteOffset, byteLength }) => new Float32Array(buffer.slice(byteOffset, byteOffset + byteLength)));
    const rows = (all: Float32Array): Float32Array[] => steps.map((_, k) => all.subarray(k * keys.length, (k + 1) * keys.length));
    this.steps = [...this.steps.slice(0, start), ...steps];
    this.norms = [...this.norms.slice(0, start), ...rows(norms)];
    this.ranks = [...this.ranks.slice(0, start), ...rows(ranks)];
    this.places = new Map(keys.map((key, k) => [String(key), k]));
    Object.assign(this, { layout, spectra, values });
    return true;
  }

  /** The norms of a place over the steps; none of a place that is not measured. */
  norm(key: string): number[] {
    return this.past(this.norms, key);
  }

  /** Its ranks, where training lets them fall. */
  rank(key: string): number[] {
    return this.past(this.ranks, key).filter((value) => !Number.isNaN(value));
  }

  /** The largest singular values of what is added there. */
  spectrum(key: string): number[] {
    const k = this.places.get(key) ?? -1;
    return k < 0 ? [] : [...this.spectra.subarray(k * this.values, (k + 1) * this.values)].filter((value) => !Number.isNaN(value));
  }

  private past(all: Float32Array[], key: string): number[] {
    const k = this.places.get(key);
    return k === undefined ? [] : all.map((row) => row[k]);
  }
}

export const deltaStore = (model: Model): DeltaStore => followed(model, new DeltaStore(), "adapters.sync", ["adapters.deltas"]);
