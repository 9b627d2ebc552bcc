// The layout as a module of its own. In a worker it takes a graph once, then sets of open scopes, and answers with
// scenes; a page that forbids workers imports it and calls `engineOf`.

import { LayoutEngine } from "./engine";
import { GraphModel } from "../model/model";
import type { GraphSpec } from "../model/wire";
import { transferables } from "./scene";

export type Request = { spec: GraphSpec; aspect?: number } | { open: number[]; ticket: number };

export function engineOf(spec: GraphSpec, aspect?: number): LayoutEngine {
  return new LayoutEngine(new GraphModel(spec), aspect);
}

const scope = globalThis as unknown as {
  onmessage: (event: MessageEvent<Request>) => void;
  postMessage(message: unknown, transfer: ArrayBuffer[]): void;
};

if (typeof document === "undefined") {
  let engine: LayoutEngine | undefined;
  scope.onmessage = ({ data }) => {
    if ("spec" in data) engine = engineOf(data.spec, data.aspect);
    else if (engine) {
      const scene = engine.layout(data.open);
      scope.postMessage({ ticket: data.ticket, scene }, transferables(scene));
    }
  };
}
