// Asks for layouts: small graphs are laid out in place, large ones in a worker, and again in place where the host
// page forbids workers.

import source from "worker:./worker.ts";
import { LayoutEngine } from "./engine";
import type { GraphModel } from "./model";
import type { Scene } from "./scene";

/** Up to here a layout takes less time than starting a worker. */
const IN_PLACE = 400;

export class LayoutClient {
  private worker: Worker | undefined;
  private engine: LayoutEngine | undefined;
  private ticket = 0;
  private readonly waiting = new Map<number, { open: number[]; resolve: (scene: Scene) => void }>();

  constructor(private readonly model: GraphModel) {
    if (model.n > IN_PLACE) this.start();
  }

  layout(open: number[]): Promise<Scene> {
    if (!this.worker) return Promise.resolve(this.inPlace(open));
    return new Promise((resolve) => {
      const ticket = ++this.ticket;
      this.waiting.set(ticket, { open, resolve });
      this.worker!.postMessage({ open, ticket });
    });
  }

  private inPlace(open: number[]): Scene {
    this.engine ??= new LayoutEngine(this.model);
    return this.engine.layout(open);
  }

  private start(): void {
    const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
    try {
      const worker = new Worker(url);
      worker.onmessage = ({ data }: MessageEvent<{ ticket: number; scene: Scene }>) => {
        URL.revokeObjectURL(url);
        this.waiting.get(data.ticket)?.resolve(data.scene);
        this.waiting.delete(data.ticket);
      };
      worker.onerror = () => this.giveUp();
      worker.postMessage({ spec: this.model.spec });
      this.worker = worker;
    } catch {
      URL.revokeObjectURL(url);
    }
  }

  private giveUp(): void {
    this.dispose();
    for (const { open, resolve } of this.waiting.values()) resolve(this.inPlace(open));
    this.waiting.clear();
  }

  dispose(): void {
    this.worker?.terminate();
    this.worker = undefined;
  }
}
