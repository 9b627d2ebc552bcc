// The controls of a trainer over its curves, and over its checkpoints where it writes any.

import { mountPlotPanel } from "../plot/panel";
import { plotStore, type PlotStore } from "../plot/series";
import { Cleanup, commit, type Model } from "../../core/afm";
import { element } from "../../core/dom";
import type { Panel } from "../../core/panel";
import { tabStrip } from "../../core/tabs";
import { checkpointsOf, mountCheckpoints } from "./checkpoints";
import { mountControls } from "./controls";
import { scheduleStore, type ScheduleStore } from "./schedule";

const SCALE = "loss_scale";

interface Stores {
  plot: PlotStore;
  schedule: ScheduleStore;
}

export const trainingPanel: Panel<Stores> = {
  prepare: (model) => ({ plot: plotStore(model), schedule: scheduleStore(model) }),
  mount: mountTraining,
};

function mountTraining(host: HTMLElement, model: Model, { plot, schedule }: Stores): () => void {
  const cleanup = new Cleanup();
  const slot = element("div", { class: "gw-slot gw-training" });
  host.append(slot);
  const shown = (): boolean => ((model.get("metrics") as string[] | undefined) ?? []).includes(SCALE);
  const toggle = (): void => {
    const chosen = (model.get("metrics") as string[] | undefined) ?? [];
    const usual = [...new Set(plot.series.map(({ panel }) => panel))].filter((name) => !plot.onDemand.includes(name));
    const others = (chosen.length ? chosen : usual).filter((name) => name !== SCALE);
    const isUsual = others.length === usual.length && usual.every((name) => others.includes(name));
    commit(model, "metrics", shown() ? (isUsual ? [] : others) : [...others, SCALE]);
  };
  cleanup.add(mountControls(slot, model, schedule, { toggle, shown }));
  const pages = ["Curves", "Checkpoints"].map((title) => ({ title, page: element("div", { class: "gw-page" }) }));
  const strip = tabStrip("Curves and checkpoints", pages, (at) => strip.show(at));
  slot.append(strip.root, ...pages.map(({ page }) => page));
  cleanup.add(mountPlotPanel(pages[0].page, model, plot));
  cleanup.add(mountCheckpoints(pages[1].page, model));
  const update = (): void => {
    const { folder } = checkpointsOf(model);
    strip.root.hidden = !folder;
    if (!folder) strip.show(0);
  };
  cleanup.model(model, "change:checkpoint_list", update);
  cleanup.add(() => slot.remove());
  strip.show(0);
  update();
  return () => cleanup.run();
}
