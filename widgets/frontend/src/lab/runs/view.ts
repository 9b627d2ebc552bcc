// The panel of runs over the server's model, in a document's frame.

import { Cleanup } from "../../core/afm";
import { showPanel } from "../../core/shell";
import { runsPanel } from "../../panels/runs/panel";
import { frameOf } from "../viewer/frame";
import type { Served } from "../viewer/served";
import { RunsModel } from "./model";

/** Shows the runs of a folder; returns what takes them down again. */
export function mountRuns(host: HTMLElement, served: Served, folder: string): () => void {
  const cleanup = new Cleanup();
  const { body, head } = frameOf(host, cleanup);
  head.remove();
  const model = new RunsModel(served, folder);
  cleanup.add(() => model.dispose());
  cleanup.add(showPanel(runsPanel, body, model));
  return () => cleanup.run();
}
