// What a run has recorded, as curves that grow while it goes on.

import { showPanel } from "../../core/shell";
import { runsPanel } from "../../panels/runs/panel";
import { RunsModel } from "../runs/model";
import type { About } from "./page";

export async function fillCurves(host: HTMLElement, { served, path }: About, end: AbortSignal): Promise<() => void> {
  const { runs } = await served.get<{ runs: { key: string }[] }>("runs", { path }, end);
  const model = new RunsModel(served, path);
  model.set("runs_chosen", runs.slice(0, 1).map(({ key }) => key));
  const undo = showPanel(runsPanel, host, model);
  return () => {
    model.dispose();
    undo();
  };
}
