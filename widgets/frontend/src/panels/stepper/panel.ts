// The stepper: commands, the nodes of the level it stands in, the values there, breakpoints and watches, over the traits
// `stepping`, `current`, `stops`, `breakpoints`, `watches`, `reruns` and `selected`. The kernel decides; the panel shows.

import { ask, Cleanup, commit, isSaved, type Message, type Model, type Named } from "../../core/afm";
import type { Request } from "../../core/contract";
import { action, button, element, example, ICONS } from "../../core/dom";
import { grouped } from "../../core/format";
import { outputChoice } from "../../core/outputs";
import type { Panel } from "../../core/panel";
import { addStyle } from "../../core/style";
import { tabStrip } from "../../core/tabs";
import { themeOf } from "../../core/theme";
import { Player, type Recording } from "./player";
import { StepList } from "./step_list";
import css from "./stepper.css";
import { exactly, stepping, Steps, type LevelMessage, type Rerun, type Row } from "./steps";
import { Breakpoints, Watches, type BreakpointFacts, type WatchFacts } from "./stops";
import { Values } from "./values";

addStyle(css);

/** Verb, icon, tooltip, keys; a saved page does what was recorded. */
const COMMANDS = [
  [["reset", ICONS.rewind, "Back to the start", "0"], ["back", ICONS.back, "One step back", "B", "ArrowLeft"], ["step", ICONS.next, "One step", "S", "ArrowRight"], ["run", ICONS.play, "Run to the next breakpoint or the end", "R"]],
  [["into", ICONS.into, "Step into this node", "I"], ["out", ICONS.out, "Finish what is around, all turns of a loop", "O"]],
  [["run_to", ICONS.target, "Run to the selected node", "T"], ["into_gradient", ICONS.gradient, "Run to the gradient of the selected node, or to the first one", "G"], ["find", ICONS.alert, "Find the first NaN or Inf", "F"]],
  [["load", ICONS.reset, "Begin anew, on the parameters as they are now", "N"], ["last_batch", ICONS.copy, "Take what the trainer's last step was fed with", "L"]],
] as const;
const RECORDED = new Set(["reset", "back", "step", "run", "run_to", "into_gradient"]);

export const stepperPanel: Panel = { prepare: () => undefined, mount: mountStepperPanel };

function mountStepperPanel(host: HTMLElement, model: Model): () => void {
  const cleanup = new Cleanup();
  const live = !isSaved(model);
  const steps = new Steps();
  let player: Player | undefined;
  const state = () => stepping(model);
  const get = <T>(key: Named<T | object>, otherwise: T): T => (model.get(key) as T | undefined) ?? otherwise;

  const tell = (kind: Request, facts: Record<string, unknown>): void => ask(model, kind, facts);
  const selected = (): string => {
    const name = get<string>("selected", "");
    return state().crumbs.length > 1 || name.endsWith("/") ? "" : name;
  };
  const move = (verb: string): void => {
    const { mode, focus } = state();
    if (mode === "running") return void (verb === "run" && ask(model, "stepper.stop"));
    if (mode === "empty" || commands.get(verb)?.disabled) return;
    const name = verb === "run_to" ? selected() || (focus?.name ?? "") : verb === "into_gradient" ? selected() : "";
    if (!player?.move(verb, name)) ask(model, "stepper.move", { verb, name });
  };
  const look = (index: number): void => {
    const name = steps.names[index];
    if (player) player.look(name);
    else ask(model, "stepper.look", { name });
  };
  const pathOf = (index: number): string => state().prefix + steps.names[index];
  const breaksAt = (index: number): BreakpointFacts[] => {
    const text = `name ${exactly(pathOf(index))}`;
    return get<BreakpointFacts[]>("breakpoints", []).filter((b) => b.text === text);
  };
  const toggleBreak = (index: number): void => {
    const found = breaksAt(index);
    if (found.length) tell("stepper.breakpoint", { numbers: found.map(({ number }) => number) });
    else tell("stepper.break", { place: "node", text: pathOf(index) });
  };
  const breakHere = (): void => {
    const index = state().focus?.index ?? -1;
    if (index >= 0) toggleBreak(index);
  };

  // -- what stands where ----------------------------------------------------------------------------------------------

  const commands = new Map<string, HTMLButtonElement>();
  const groups = COMMANDS.map((group) => element("span", { class: "gw-group" }, ...group.map(([verb, icon, label, ...keys]) => {
    const made = button(icon, `${label} (${keys.map((key) => ({ ArrowLeft: "←", ArrowRight: "→" })[key as string] ?? key).join(" or ")})`, () => move(verb));
    made.dataset.verb = verb;
    if (!live && !RECORDED.has(verb)) made.disabled = true;
    commands.set(verb, made);
    return made;
  })));
  const stopButton = button(ICONS.stop, "Stop (R or Escape)", () => ask(model, "stepper.stop"));
  commands.get("run")!.after(stopButton);
  const place = element("div", { class: "gw-step-place" });
  const bar = element("div", { class: "gw-progress", "aria-hidden": "true" }, element("div"));
  const list = new StepList(steps, {
    look, toggleBreak,
    hasBreak: (index) => (state().crumbs.length < 2 && marked.has(steps.names[index])) || breaksAt(index).length > 0,
    want: (first) => live && model.send({ kind: "stepper.rows", level: steps.level, first }),
  }, cleanup);
  const values = new Values({
    live,
    selectNode: (name) => (state().crumbs.length > 1 ? undefined : commit(model, "selected", name)),
    showTensor: (tensor) => (player ? undefined : ask(model, "stepper.look", { tensor })),
    edit: (facts) => tell("stepper.edit", facts),
    rerun: () => move("rerun"),
  });
  const breakpoints = new Breakpoints(tell, live, breakHere);
  const watches = new Watches(tell, live);
  const pages = [{ title: "Values", page: values.root }, { title: "Breakpoints", page: breakpoints.root }, { title: "Watches", page: watches.root }];
  const strip = tabStrip("Beside the nodes", pages, (at) => strip.show(at));
  const side = element("div", { class: "gw-step-side" }, strip.root, element("div", { class: "gw-step-page" }, ...pages.map(({ page }) => page)));
  const main = element("div", { class: "gw-step-main" }, list.root, side);
  const welcome = element("div", { class: "gw-step-welcome" });
  const notice = element("div", { class: "gw-step-stale", role: "status" });
  const status = element("div", { class: "gw-status", role: "status" });
  const root = element("section", { class: "gw-stepper", "aria-label": "Stepper" }, element("header", { class: "gw-toolbar" }, ...groups), place, bar, notice, main, welcome, status);
  host.append(root);
  strip.show(0);

  // -- showing --------------------------------------------------------------------------------------------------------

  let marked = new Set<string>();
  const theme = themeOf(root, cleanup, show);
  let asked = -1; // the level whose names have been asked for

  function show(): void {
    const now = state();
    const { mode, crumbs, position, count, progress, say, tone, stale, source } = now;
    values.setTheme(theme());
    const begun = mode === "ready" || mode === "running";
    root.dataset.mode = mode;
    root.dataset.position = String(position);
    main.hidden = place.hidden = bar.hidden = status.hidden = !begun;
    welcome.hidden = begun;
    stopButton.hidden = mode !== "running";
    commands.get("run")!.hidden = mode === "running";
    for (const [verb, made] of commands) {
      const current = now.focus?.index === position && now.focus;
      made.disabled =
        mode === "empty" || mode === "running" || (!live && !RECORDED.has(verb)) ||
        (begun && ((verb === "back" && !position && crumbs.length < 2) || (verb === "out" && crumbs.length < 2) || (verb === "reset" && !position && crumbs.length < 2) ||
          (verb === "into" && !!current && !current.inside) || (["step", "run", "into"].includes(verb) && position >= count && crumbs.length < 2)));
    }
    if (!begun) {
      const parts: Node[] = [element("div", { class: "gw-step-lead" }, mode === "empty" ? say : "Run this graph node by node, to the loss and back through its gradients.")];
      if (now.code) parts.push(example(now.code));
      const choice = outputChoice(model);
      if (choice) parts.push(choice);
      if (mode === "idle") parts.push(live ? action("Start", () => move("reset"), true) : element("div", { class: "gw-step-note" }, "Nothing was recorded."));
      welcome.replaceChildren(...parts);
      notice.hidden = true;
      return;
    }
    const at = progress && mode === "running" ? progress : { position, count };
    place.replaceChildren(
      ...crumbs.flatMap((name, k) => [...(k ? [element("span", { class: "gw-step-sep" }, "›")] : []), element("span", { class: k === crumbs.length - 1 ? "gw-step-here" : "gw-step-crumb", title: name }, name.slice(name.lastIndexOf("/") + 1) || name)]),
      element("span", { class: "gw-space" }),
      element("span", { class: "gw-step-count" }, mode === "running" ? `running · ${grouped(at.position)} of ${grouped(at.count)}` : `${grouped(position)} of ${grouped(count)}`),
    );
    bar.style.setProperty("--gw-done", String(at.count ? at.position / at.count : 0));
    notice.hidden = !stale || mode === "running";
    if (stale) notice.replaceChildren(stale, ...(live ? [action("Begin anew", () => move("load"))] : []));
    const reruns = get<Rerun>("reruns", {});
    const here = reruns.level === now.level ? (reruns.before ?? []) : [];
    steps.takeRows(now.rows, now.level, now.epoch);
    list.show(now, here as Row[]);
    values.show(now);
    const line = (!tone && reruns.level === now.level && reruns.position === position && reruns.text) || say.split("\n")[0];
    status.replaceChildren(...(line ? [element("span", { class: tone === "error" ? "gw-step-wrong" : "gw-step-line", title: line }, line)] : []), element("span", { class: "gw-space" }), element("span", { class: "gw-detail", title: source }, source));
    if (now.level !== steps.level && now.level !== asked) {
      asked = now.level;
      model.send({ kind: "stepper.sync" });
    }
  }

  function showStops(): void {
    const found = get<BreakpointFacts[]>("breakpoints", []);
    marked = new Set(get<string[]>("stops", []));
    strip.tabs[1].textContent = found.length ? `Breakpoints ${found.length}` : "Breakpoints";
    breakpoints.show(found);
    list.refresh();
  }

  function showWatches(): void {
    const found = get<WatchFacts[]>("watches", []);
    strip.tabs[2].textContent = found.length ? `Watches ${found.length}` : "Watches";
    watches.show(found);
  }

  cleanup.model(model, "msg:custom", (content: Message & Record<string, unknown>, buffers: DataView[]) => {
    if (content.kind === "stepper.level") steps.takeLevel(content as unknown as LevelMessage, buffers);
    else if (content.kind === "stepper.rows") steps.takeRows(content.rows as Row[], content.level as number, content.epoch as number);
    else if (content.kind === "stepper.recording") player = new Player(model, content as unknown as Recording, buffers[0]);
    else return;
    show();
  });
  cleanup.model(model, "change:stepping", show);
  cleanup.model(model, "change:reruns", show);
  cleanup.model(model, "change:outputs", show);
  cleanup.model(model, "change:selected", () => player?.look(selected()));
  cleanup.model(model, "change:breakpoints", showStops);
  cleanup.model(model, "change:stops", showStops);
  cleanup.model(model, "change:watches", showWatches);
  const keys = new Map<string, string>(COMMANDS.flatMap((group) => group.flatMap(([verb, , , ...found]) => found.map((key) => [key.toLowerCase(), verb] as const))));
  cleanup.dom(root, "keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || (event.target as HTMLElement).closest("input, select, textarea")) return;
    const verb = keys.get(event.key.toLowerCase());
    if (event.key === "Escape" && state().mode === "running") ask(model, "stepper.stop");
    else if (event.key === "." && live) breakHere();
    else if (verb) move(verb);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  cleanup.add(() => root.remove());
  show();
  showStops();
  showWatches();
  requestAnimationFrame(show); // the host may put the view into the page only now, and colours come from there
  return () => cleanup.run();
}
