// Asks for layouts: small graphs are laid out in place, large ones in a worker, and again in place where the host
// page forbids workers. Either way the layout is a module inside this bundle, loaded from a Blob like the bundle itself.

import source from "worker:./worker.ts";
import type { LayoutEngine } from "./engine";
import type { Scene } from "./scene";
import type { GraphSpec } from "../model/wire";

/** Up to here a layout takes less time than starting a worker. */
const IN_PLACE = 400;

type LayoutModule = typeof import("./worker");
let loaded: Promise<LayoutModule> | undefined;

function moduleUrl(): string {
  return URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
}

function load(): Promise<LayoutModule> {
  return (loaded ??= import(/* @vite-ignore */ /* webpackIgnore: true */ moduleUrl()) as Promise<LayoutModule>);
}

export class LayoutClient {
  private worker: Worker | undefined;
  private engine: LayoutEngine | undefined;
  private ticket = 0;
  private aspect: number | undefined;
  /** The graph that the engine has. */
  private known: GraphSpec | undefined;
  private readonly waiting = new Map<number, { spec: GraphSpec; open: number[]; resolve: (scene: Promise<Scene> | Scene) => void }>();

  constructor(spec: GraphSpec) {
    if (spec.names.length > IN_PLACE) this.start();
  }

  /** `aspect` is width to height of the window; the first one counts, so that nothing is shuffled when a window changes. */
  layout(spec: GraphSpec, open: number[], aspect?: number): Promise<Scene> {
    this.aspect ??= aspect;
    if (!this.worker) return this.inPlace(spec, open);
    return new Promise((resolve) => {
      const ticket = ++this.ticket;
      this.waiting.set(ticket, { spec, open, resolve });
      if (spec !== this.known) this.worker!.postMessage({ spec, aspect: this.aspect });
      this.known = spec;
      this.worker!.postMessage({ open, ticket });
    });
  }

  private async inPlace(spec: GraphSpec, open: number[]): Promise<Scene> {
    const { engineOf } = await load();
    if (!this.engine || spec !== this.known) this.engine = engineOf(spec, this.aspect);
    this.known = spec;
    return this.engine.layout(open);
  }

  private start(): void {
    const url = moduleUrl();
    try {
      const worker = new Worker(url, { type: "module" });
      worker.onmessage = ({ data }: MessageEvent<{ ticket: number; scene: Scene }>) => {
        URL.revokeObjectURL(url);
        this.waiting.get(data.ticket)?.resolve(data.scene);
        this.waiting.delete(data.ticket);
      };
      worker.onerror = () => this.giveUp();
      this.worker = worker;
    } catch {
      URL.revokeObjectURL(url);
    }
  }

  private giveUp(): void {
    this.dispose();
    for (const { spec, open, resolve } of this.waiting.values()) resolve(this.inPlace(spec, open));
    this.waiting.clear();
  }

  dispose(): void {
    this.worker?.terminate();
    this.worker = undefined;
  }
}
