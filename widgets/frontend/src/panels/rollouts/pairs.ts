// Preference pairs side by side: each token by what the policy says more of it than the reference, and by how much the chosen
// completion is ahead.

import { ask, Cleanup, commit, isSaved, type Model } from "../../core/afm";
import { action, element, everyFrame, field, select } from "../../core/dom";
import { bars } from "../../core/figures";
import { counted } from "../../core/format";
import type { Panel } from "../../core/panel";
import { addStyle } from "../../core/style";
import css from "./rollouts.css";
import { legend, number, pager, samples, tokenLine } from "./samples";
import { sampleStore, type Histogram, type SampleStore } from "./store";

addStyle(css);

interface Facts {
  n: number;
  accuracy: number | null;
  mean: number | null;
  reference: boolean;
  measures: boolean;
  pages: number;
  histogram: Omit<Histogram, "name">;
}

const SORTS = [["given", "as given"], ["wrong", "most wrong first"], ["right", "most right first"], ["close", "closest first"]] as const;

export const pairsPanel: Panel<SampleStore> = { prepare: (model) => sampleStore(model, "pairs.sync", ["pairs.page", "pairs.token"]), mount };

function mount(host: HTMLElement, model: Model, store: SampleStore): () => void {
  const cleanup = new Cleanup();
  const saved = isSaved(model);
  const subtitle = element("span", { class: "gw-subtitle" });
  const sort = select("Sort", SORTS, (value) => {
    model.set("pairs_first", 0);
    commit(model, "pairs_sort", value);
  });
  const measure = action("Measure", () => ask(model, "pairs.measure"), true);
  const scale = element("span");
  const turn = pager((first) => commit(model, "pairs_first", Math.max(0, first)));
  const spread = element("div", { class: "gw-pairs-margins" });
  const token = element("div", { class: "gw-rollout-token", role: "status" });
  const look = (row: number, place: number): void => {
    if (!saved) ask(model, "pairs.look", { row, place });
  };
  const text = samples(
    store, look,
    ({ mean }) => [element("span", { class: "gw-pairs-margin", "data-wrong": (mean ?? 0) <= 0 }, `margin ${number(mean)}`)],
    ({ row, reward, length }, { rows }) => [element("strong", {}, row === rows[0].row ? "chosen" : "rejected"), element("span", { class: "gw-detail" }, number(reward)), element("span", { class: "gw-detail" }, counted(length, "token"))],
  );
  text.root.classList.add("gw-pairs-samples");
  const options = element("div", { class: "gw-rollout-options" }, field("Sort", sort), scale, spread, element("span", { class: "gw-space" }), turn.root);
  const none = element("div", { class: "gw-empty" }, "There are no pairs to show.");
  const foot = element("footer", { class: "gw-rollout-foot" }, token);
  const root = element("section", { class: "gw-rollouts", "aria-label": "Preference pairs" }, element("header", { class: "gw-toolbar" }, element("span", { class: "gw-title" }, "Pairs"), subtitle, element("span", { class: "gw-space" }), measure), options, text.root, foot, none);
  host.append(root);

  function draw(): void {
    const told = (model.get("pairs") ?? {}) as Facts;
    const { page } = store;
    const any = page !== undefined && told.n > 0;
    subtitle.textContent = any ? `${counted(told.n, "pair")} · ${number((told.accuracy ?? 0) * 100)} % with the chosen ahead · mean margin ${number(told.mean)}${told.reference ? "" : " · no reference"}` : "";
    sort.value = String(model.get("pairs_sort"));
    sort.disabled = saved;
    measure.hidden = saved || !told.measures;
    scale.replaceChildren(...(any ? [element("span", { class: "gw-field gw-pairs-of" }, told.reference ? "log π − log π_ref" : "log π"), legend(page)] : []));
    const { counts = [], low = 0, high = 0 } = told.histogram ?? {};
    spread.replaceChildren(...(counts.length ? [element("span", { class: "gw-detail" }, "margins"), bars(counts, 120, 22, `Margins from ${number(low)} to ${number(high)}`, (count, k) => `${count} about ${number(low! + ((high! - low!) * (k + 0.5)) / counts.length)}`)] : []));
    turn.draw(page, told.pages, "Pairs");
    text.draw((model.get("pairs_token") as number[] | undefined) ?? []);
    token.replaceChildren(...tokenLine(store));
    text.root.hidden = foot.hidden = options.hidden = !any;
    none.hidden = any;
  }

  const frame = everyFrame(draw, text.root);
  for (const key of ["pairs", "pairs_sort", "pairs_token"] as const) cleanup.model(model, `change:${key}`, frame.request);
  cleanup.add(store.listen(frame.request));
  cleanup.add(() => {
    frame.cancel();
    root.remove();
  });
  draw();
  return () => cleanup.run();
}
