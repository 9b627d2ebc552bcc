// Rollouts of a training: groups of samples in the colours of a measure, histograms and curves beside them, what goes wrong above,
// and rewards that can be weighed while it is paused.

import { ask, Cleanup, commit, isSaved, type Model, type Named } from "../../core/afm";
import { action, checkbox, element, everyFrame, example, field, select } from "../../core/dom";
import { bars, line } from "../../core/figures";
import { counted, grouped } from "../../core/format";
import type { Panel } from "../../core/panel";
import { addStyle } from "../../core/style";
import css from "./rollouts.css";
import { legend, number, pager, samples, tokenLine } from "./samples";
import { sampleStore, type Group, type Histogram, type Sample, type SampleStore } from "./store";

addStyle(css);

interface Facts {
  status: string;
  tensor: boolean;
  number?: number;
  latest: number;
  step: number;
  rows: number;
  groups: number;
  rate: number | null;
  pages: number;
}

interface RewardRow {
  name: string;
  weight: number;
  on: boolean;
}

interface Alarm {
  name: string;
  text: string;
}

const MEASURES = [["advantage", "Advantage"], ["ratio", "Ratio"], ["kl", "KL to the reference"], ["entropy", "Entropy"], ["reward", "Reward"]] as const;
const SORTS = [["drawn", "as drawn"], ["best", "best first"], ["worst", "worst first"], ["spread", "most spread first"], ["longest", "longest first"]] as const;
const SHOWN = [["all", "all groups"], ["mixed", "mixed rewards"], ["alike", "rewards alike"], ["cut", "cut rows"], ["failed", "failed rewards"]] as const;
const TRAITS = ["rollout", "rollout_alarms", "rollout_rewards", "rollout_measure", "rollout_sort", "rollout_show", "rollout_live", "rollout_token"] as const;
const NAMES: Record<string, string> = { reward: "Reward", length: "Length", entropy: "Entropy", kl: "KL", alike: "Alike" };

export const rolloutsPanel: Panel<SampleStore> = { prepare: (model) => sampleStore(model, "rollouts.sync", ["rollouts.page", "rollouts.figures", "rollouts.token"]), mount };

function mount(host: HTMLElement, model: Model, store: SampleStore): () => void {
  const cleanup = new Cleanup();
  const saved = isSaved(model);
  const facts = (): Facts => (model.get("rollout") ?? {}) as Facts;
  const list = <T>(key: (typeof TRAITS)[number] & Named<unknown[]>): T[] => (model.get(key) as T[] | undefined) ?? [];

  const view = <T extends string>(label: string, key: "rollout_measure" | "rollout_sort" | "rollout_show", options: readonly (readonly [T, string])[]): HTMLSelectElement =>
    select(label, options, (value) => {
      if (key !== "rollout_measure") model.set("rollout_first", 0);
      commit(model, key, value as never);
    });
  const chosen = { rollout_measure: view("Colour", "rollout_measure", MEASURES), rollout_sort: view("Sort", "rollout_sort", SORTS), rollout_show: view("Show", "rollout_show", SHOWN) };
  const live = checkbox((on) => commit(model, "rollout_live", on));
  const pause = action("Pause", () => ask(model, facts().status === "paused" ? "rollouts.resume" : "rollouts.pause"), true);
  const subtitle = element("span", { class: "gw-subtitle" });
  const scale = element("span");
  const turn = pager((first) => commit(model, "rollout_first", Math.max(0, first)));
  const alarms = element("ul", { class: "gw-rollout-alarms", "aria-label": "What goes wrong", role: "list" });
  const rewards = element("div", { class: "gw-rollout-rewards" });
  const figures = element("div", { class: "gw-rollout-figures" });
  const token = element("div", { class: "gw-rollout-token", role: "status" });
  const step = action("Step through", () => ask(model, "rollouts.step", where()));
  const tensor = action("As tensor", () => ask(model, "rollouts.tensor"));
  tensor.title = "Shows the numbers that colour the tokens as a tensor";
  step.title = "Steps through the graph that computes this token's row";
  const where = (): Record<string, unknown> => ({ row: store.token?.row, place: store.token?.place });
  const look = (row: number, place: number): void => {
    if (!saved) ask(model, "rollouts.look", { row, place });
  };
  const text = samples(store, look, title, about);
  const options = element("div", { class: "gw-rollout-options" }, field("Colour", chosen.rollout_measure), scale, field("Sort", chosen.rollout_sort), field("Show", chosen.rollout_show), element("span", { class: "gw-space" }), turn.root);
  const none = element("div", { class: "gw-empty" });
  const aside = element("aside", { class: "gw-rollout-aside", tabindex: 0, "aria-label": "Rewards and figures" }, rewards, figures);
  const body = element("div", { class: "gw-rollout-body" }, text.root, aside);
  const foot = element("footer", { class: "gw-rollout-foot" }, token, element("span", { class: "gw-space" }), tensor, step);
  const root = element("section", { class: "gw-rollouts", "aria-label": "Rollouts" }, element("header", { class: "gw-toolbar" }, element("span", { class: "gw-title" }, "Rollouts"), subtitle, element("span", { class: "gw-space" }), field("Live", live), pause), options, alarms, body, foot, none);
  host.append(root);

  function title({ mean, spread, alike, all = 0 }: Group): (Node | string)[] {
    return [
      ...(alike ? [element("span", { class: "gw-chip", title: "All its rewards are the same: it teaches nothing" }, "alike")] : []),
      element("span", { class: "gw-detail" }, `mean ${number(mean)}${all > 1 ? ` ± ${number(spread)}` : ""}`),
    ];
  }

  function about({ reward, advantage, length, reason, parts, error }: Sample): (Node | string)[] {
    const names = store.page?.names ?? [];
    const each = names.length > 1 ? names.map((name, k) => `${name} ${number(parts?.[k])}`).join("\n") : "";
    const ended = reason === "length" || reason === "time" ? `${length} tokens, cut` : counted(length, "token");
    return [
      element("strong", { title: each }, number(reward)), element("span", { class: "gw-detail", title: "Advantage" }, `A ${number(advantage, 2)}`), element("span", { class: "gw-detail" }, ended),
      ...(error ? [element("span", { class: "gw-sample-error", title: error }, error)] : []),
    ];
  }

  function rewardRow({ name, weight, on }: RewardRow): HTMLElement {
    const box = checkbox((wanted) => ask(model, "rollouts.switch", { name, on: wanted }), { "aria-label": `Count ${name}`, title: "Whether it counts; it is judged in any case" });
    const input = element("input", { class: "gw-input gw-rollout-weight", type: "number", step: "any", value: weight, "aria-label": `Weight of ${name}` });
    input.addEventListener("change", () => (Number.isFinite(input.valueAsNumber) ? ask(model, "rollouts.weigh", { name, weight: input.valueAsNumber }) : (input.value = String(weight))));
    box.checked = on;
    box.disabled = input.disabled = saved;
    return element("div", { class: "gw-rollout-curve", "data-name": name, "data-on": on }, box, ...curve(name, store.curves.get(`rewards/${name}`) ?? []), input);
  }

  const curve = (name: string, values: number[], title = name): Node[] => [element("span", { class: "gw-rollout-name", title }, name), line(values, 72, 18), element("span", { class: "gw-rollout-latest" }, number(values[values.length - 1]))];

  function histogram({ name, low, high, mean, counts }: Histogram): HTMLElement {
    const level = Math.abs(mean ?? 0) < 1e-6 * ((high ?? 0) - (low ?? 0)) ? 0 : mean; // what rounding leaves of a centred one
    const place = (k: number): string => number((low ?? 0) + (((high ?? 0) - (low ?? 0)) * (k + 0.5)) / counts.length);
    return element(
      "figure", {}, element("figcaption", {}, element("strong", {}, name), ` mean ${number(level)}`),
      bars(counts, 140, 36, `${name}: from ${number(low)} to ${number(high)}, mean ${number(level)}`, (count, k) => `${count} about ${place(k)}`),
      element("div", { class: "gw-rollout-ends", "aria-hidden": "true" }, element("span", {}, number(low)), element("span", {}, number(high))),
    );
  }

  function draw(): void {
    const told = facts();
    const page = store.page;
    const any = told.number !== undefined && page !== undefined;
    const [busy, paused] = [told.status === "running", told.status === "paused"];
    pause.textContent = paused ? "Go on" : "Pause";
    pause.hidden = saved || !(busy || paused);
    pause.classList.toggle("gw-action-main", paused);
    const behind = any ? told.latest - (told.number ?? 0) : 0;
    subtitle.textContent = any ? [`rollout ${grouped(told.number!)}${behind > 0 ? `, ${behind} behind` : ""}`, `step ${grouped(told.step)}`, `${counted(told.rows, "sample")} in ${counted(told.groups, "group")}`, ...(told.rate ? [`${grouped(Math.round(told.rate))} tokens/s`] : [])].join(" · ") : "";
    for (const [key, node] of Object.entries(chosen)) {
      node.value = String(model.get(key as keyof typeof chosen));
      node.disabled = saved;
    }
    live.checked = Boolean(model.get("rollout_live"));
    live.disabled = saved;
    const wrong = list<Alarm>("rollout_alarms");
    alarms.hidden = !wrong.length;
    alarms.replaceChildren(...wrong.map(({ name, text: words }) => element("li", { "data-name": name }, element("span", { class: "gw-sign", "aria-hidden": "true" }, "!"), words)));
    const given = list<RewardRow>("rollout_rewards");
    if (!rewards.querySelector("input[type=number]:focus")) rewards.replaceChildren(element("h4", {}, "Rewards", element("span", { class: "gw-detail" }, "weight")), ...given.map(rewardRow));
    const others = [...store.curves].filter(([name]) => !name.startsWith("rewards/"));
    figures.replaceChildren(
      element("h4", {}, "Over rollouts"), ...others.map(([name, values]) => element("div", { class: "gw-rollout-curve" }, ...curve(NAMES[name] ?? name, values, name === "alike" ? "Share of the groups whose rewards are the same" : undefined))),
      element("h4", {}, "In this rollout"), element("div", { class: "gw-rollout-histograms" }, ...store.histograms.map(histogram)),
    );
    scale.replaceChildren(...(any && page.known ? [legend(page)] : []), ...(any && !page.known ? [element("span", { class: "gw-detail" }, "not known")] : []));
    turn.draw(page, told.pages, "Groups");
    text.draw(list<number>("rollout_token"));
    token.replaceChildren(...tokenLine(store));
    tensor.hidden = saved || !told.tensor;
    step.hidden = saved || !store.token;
    body.hidden = foot.hidden = options.hidden = !any;
    none.hidden = any;
    if (!any) none.replaceChildren(...(given.length ? ["Nothing has been drawn yet: the first rollout of the training shows here."] : ["No training draws rollouts here. One that does:", example("trainer = gw.align.trainer(model, gw.align.GRPO(), rewards=[f])\nRolloutPanel(trainer)")]));
  }

  const frame = everyFrame(draw, text.root, rewards);
  for (const key of TRAITS) cleanup.model(model, `change:${key}`, frame.request);
  cleanup.add(store.listen(frame.request));
  cleanup.add(() => {
    frame.cancel();
    root.remove();
  });
  draw();
  return () => cleanup.run();
}
