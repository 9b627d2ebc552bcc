// The layout in a thread of its own: takes a graph once, then sets of open scopes, and answers with scenes.

import { LayoutEngine } from "./engine";
import { GraphModel, type GraphSpec } from "./model";
import { transferables } from "./scene";

export type Request = { spec: GraphSpec } | { open: number[]; ticket: number };

const scope = globalThis as unknown as {
  onmessage: (event: MessageEvent<Request>) => void;
  postMessage(message: unknown, transfer: ArrayBuffer[]): void;
};
let engine: LayoutEngine | undefined;

scope.onmessage = ({ data }) => {
  if ("spec" in data) engine = new LayoutEngine(new GraphModel(data.spec));
  else if (engine) {
    const scene = engine.layout(data.open);
    scope.postMessage({ ticket: data.ticket, scene }, transferables(scene));
  }
};
