// The watch of the gradients while training goes on: its switches, its alarms in words, and the strip of its looks.

import { commit, isSaved, type Cleanup, type Model } from "../../core/afm";
import { checkbox, element, field } from "../../core/dom";
import { compact, counted, errorText, grouped } from "../../core/format";
import { ways } from "./places";
import { mountStrip } from "./strip";
import type { Look, WatchStore } from "./watch_store";
import { SIGNS } from "./words";

const MOST_ALARMS = 3;
const STATES: Record<string, string> = { idle: "waits for a training", watching: "watching", alarm: "found a wrong gradient" };
const KINDS: Record<Look["kind"], string> = { node: "node", element: "parameter", precision: "in the dtype of the training" };

/** Without a trainer there is nothing to watch. */
export function mountWatch(model: Model, store: WatchStore, cleanup: Cleanup): HTMLElement {
  const on = checkbox((wanted) => commit(model, "watch_on", wanted));
  const pause = checkbox((wanted) => commit(model, "watch_pause", wanted));
  const state = element("span", { class: "gw-watch-state", role: "status" });
  const pausing = field("Pause at an error above noise", pause);
  const switches = element("div", { class: "gw-check-options" }, field("Watch while training", on), pausing, element("span", { class: "gw-space" }), state);
  const alarms = element("div", { class: "gw-findings", role: "alert" });
  const reading = element("div", { class: "gw-watch-reading", "aria-live": "polite" });
  const show = (name: string): void => commit(model, "selected", name);
  const strip = mountStrip(store, cleanup, (look) => say(look), (look) => show(look.name));
  const root = element("div", { class: "gw-watch", role: "group", "aria-label": "Watch of the gradients" }, switches, alarms, strip.root, reading);

  function say(look: Look | undefined): void {
    const { facts, looks } = store;
    if (look) {
      reading.replaceChildren(
        `step ${grouped(look.step)} `, element("strong", {}, look.name),
        ` ${KINDS[look.kind]}, error ${errorText(Number.isFinite(look.error) ? look.error : null)}, noise ${errorText(Number.isFinite(look.noise) ? look.noise : null)}`,
      );
    } else if (facts && looks.length) {
      const rounds = facts.rounds ? `${counted(facts.rounds, "round")} over all nodes` : "not yet all nodes";
      reading.textContent = `${counted(facts.looks, "look")}, ${rounds}, ${compact(100 * facts.share, 2)} % of the time`;
    } else reading.textContent = "The first looks come when training goes on.";
  }

  function update(): void {
    const now = String(model.get("watch_state") ?? "");
    const active = Boolean(model.get("watch_on"));
    root.hidden = now === "";
    root.dataset.state = active ? now : "off";
    on.checked = active;
    pause.checked = Boolean(model.get("watch_pause"));
    on.disabled = pause.disabled = isSaved(model);
    pausing.hidden = !active;
    state.textContent = active ? (STATES[now] ?? "") : "";
    const seen = store.looks.length > 0;
    strip.root.hidden = !seen;
    reading.hidden = !seen && !active;
    const found = store.facts?.alarms ?? [];
    alarms.hidden = !found.length;
    alarms.replaceChildren(...found.slice(0, MOST_ALARMS).map(({ step, text, where, nodes }) => element(
      "div", { class: "gw-finding", "data-verdict": "fail", title: where },
      element("span", { class: "gw-sign", "aria-hidden": "true" }, SIGNS.fail),
      element("span", {}, `Step ${grouped(step)}: ${text}`),
      ...(nodes.length ? [ways(model, nodes[0])] : []),
    )));
    if (found.length > MOST_ALARMS) alarms.append(element("div", { class: "gw-finding" }, `… and ${found.length - MOST_ALARMS} more`));
    say(undefined);
    strip.update();
  }

  for (const trait of ["watch_on", "watch_pause", "watch_state"] as const) cleanup.model(model, `change:${trait}`, update);
  cleanup.add(store.listen(update));
  update();
  return root;
}
