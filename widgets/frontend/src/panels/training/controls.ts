// The controls of a training, over the traits `state`, `training`, `epochs` and the requests `train.*`. The kernel decides
// what happens; a button that was pressed waits visibly for the state to follow.

import { ask, Cleanup, commit, isSaved, onWaiting, waitingRequests, type Message, type Model } from "../../core/afm";
import type { Request } from "../../core/contract";
import { action, checkbox, element, field, ICONS } from "../../core/dom";
import { compact, grouped } from "../../core/format";
import { icon } from "../../core/icons";
import { addStyle } from "../../core/style";
import { methodLine, trainingOf, type Training } from "./facts";
import { duration, parseRate, RateScale, rateText } from "./numbers";
import { mountSchedule, type ScheduleStore } from "./schedule";
import css from "./training.css";

addStyle(css);

type State = "idle" | "running" | "paused" | "stopped" | "finished" | "failed";

const WORDS: Record<State, string> = {
  idle: "Not started", running: "Running", paused: "Paused", stopped: "Stopped", finished: "Finished", failed: "Failed",
};
const THROTTLE = 100; // ms between two learning rates while the slider moves

export function mountControls(host: HTMLElement, model: Model, store: ScheduleStore, scaleCurve: { toggle: () => void; shown: () => boolean }): () => void {
  const cleanup = new Cleanup();
  const saved = isSaved(model);
  const main = control(ICONS.play, "Start", () => press(main, state() === "running" ? "training.pause" : state() === "paused" ? "training.resume" : "training.start"), true);
  const single = control(ICONS.next, "Step", () => press(single, "training.step"));
  const stop = control(ICONS.stop, "Stop", () => press(stop, "training.stop"));
  single.setAttribute("aria-label", "Step");
  stop.setAttribute("aria-label", "Stop");
  single.title = "Take one step ( . )";
  stop.title = "End after the present step; Start goes on from there";
  const word = element("span", { class: "gw-train-state", role: "status" });
  const epochs = element("input", { class: "gw-input gw-train-epochs", type: "number", min: 1, step: 1, "aria-label": "Epochs to train" });
  const record = checkbox((on) => commit(model, "record", on));
  const recording = field("Record", record);
  recording.classList.add("gw-train-record");
  const slider = element("input", { class: "gw-train-rate", type: "range", min: -2, max: 2, step: 0.01, "aria-label": "Learning rate" });
  const value = element("input", { class: "gw-input gw-train-value", type: "text", inputmode: "decimal", spellcheck: "false", "aria-label": "Learning rate as a number" });
  const back = action("Schedule", () => ask(model, "rate.set", {}));
  const schedule = mountSchedule(model, store, cleanup);
  const methods = methodLine(model, scaleCurve);
  const bar = element("div", {});
  const progress = element("div", { class: "gw-progress", role: "progressbar", "aria-label": "Steps of this training", "aria-valuemin": 0, "aria-valuemax": 100 }, bar);
  const facts = element("div", { class: "gw-train-facts" });
  const note = element("div", { class: "gw-train-note", role: "status", hidden: true });
  const root = element(
    "section",
    { class: "gw-train", "aria-label": "Trainer", tabindex: -1 },
    element("div", { class: "gw-train-row" }, element("div", { class: "gw-train-buttons", role: "group", "aria-label": "Training" }, main, single, stop), field("Epochs", epochs), word),
    element("div", { class: "gw-train-row" }, field("Learning rate", slider), value, back, schedule.opener, recording),
    schedule.strip,
    progress,
    facts,
    methods.root,
    note,
  );
  host.append(root);
  const scale = new RateScale();
  let held = false; // while the slider is dragged it does not follow the kernel,
  let asked = 0; // nor while the kernel has rates to take: keys come faster than its answers
  let wrong = ""; // why what was typed is no learning rate

  function control(path: string, label: string, onClick: () => void, important = false): HTMLButtonElement {
    const node = action("", onClick, important);
    node.append(icon(path), element("span", {}, label));
    return node;
  }

  const state = (): State => (model.get("state") as State | undefined) ?? "idle";
  const training = (): Training => trainingOf(model);

  function press(node: HTMLButtonElement, kind: Request): void {
    if (node.disabled) return;
    node.dataset.waiting = "true";
    ask(model, kind);
  }

  const update = (): void => {
    const now = state();
    const t = training();
    const active = now === "running" || now === "paused";
    root.dataset.state = now;
    word.textContent = now === "idle" && t.step ? `At step ${grouped(t.step)}` : WORDS[now] + (active && !t.here ? " from code" : "");
    const label = now === "running" ? "Pause" : now === "paused" ? "Resume" : "Start";
    if (main.textContent !== label) main.replaceChildren(icon(now === "running" ? ICONS.pause : ICONS.play), element("span", {}, label));
    main.title = active ? `${label} (Space)` : t.epoch && now !== "finished" ? "Go on where the training stopped (Space)" : "Train in the background (Space)";
    for (const node of [main, single, stop]) delete node.dataset.waiting;
    main.disabled = saved || !t.trainer || (!active && !t.data);
    single.disabled = saved || !t.trainer || now === "running" || (!active && !t.data);
    stop.disabled = saved || !active;
    epochs.disabled = saved || !t.data || active;
    record.checked = model.get("record") !== false;
    record.disabled = epochs.disabled;
    recording.title = "Keep a record of what Start trains: settings, steps, epochs and how it ended, in a run folder that the tab Runs and gw.runs() list";
    if (root.querySelector(":focus") !== epochs) epochs.value = String(model.get("epochs") ?? 1);
    updateRate(t);
    updateProgress(now, t);
    methods.update(t);
    updateNote(now, t);
  };

  const updateRate = (t: Training): void => {
    slider.disabled = value.disabled = saved || !t.trainer;
    back.hidden = !t.aside;
    back.disabled = saved;
    back.title = `Back to the schedule: ${t.aside}`;
    if (t.rate == null || held || asked) return;
    slider.value = String(scale.toSlider(t.rate));
    slider.setAttribute("aria-valuetext", rateText(t.rate));
    if (root.querySelector(":focus") !== value) typedWell(rateText(t.rate));
  };

  const typedWell = (text: string): void => {
    value.value = text;
    value.removeAttribute("aria-invalid");
    wrong = "";
  };

  const updateProgress = (now: State, t: Training): void => {
    const known = t.total != null && t.total >= Math.max(1, t.steps ?? 0); // steps that are skipped may come on top
    const done = known ? Math.min(1, (t.steps ?? 0) / t.total!) : now === "finished" ? 1 : 0;
    progress.style.setProperty("--gw-done", String(done));
    progress.toggleAttribute("data-unknown", now === "running" && !known);
    if (known) progress.setAttribute("aria-valuenow", String(Math.round(100 * done)));
    else progress.removeAttribute("aria-valuenow");
    const parts: [string, string][] = [];
    if (t.epochs) parts.push(["epoch", `${t.epoch} / ${t.epochs}`]);
    if (t.epochs) parts.push(["step", `${grouped(t.steps ?? 0)}${known ? ` / ${grouped(t.total!)}` : ""}`]);
    if (t.loss !== undefined) parts.push(["loss", t.loss]);
    if (t.pace) parts.push(["steps/s", compact(t.pace)]);
    if (t.epochs) parts.push(["time", duration(t.seconds ?? 0)]);
    if ((now === "running" || now === "paused") && t.left != null) parts.push(["left", t.left < 1 ? "under 1 s" : `about ${duration(t.left)}`]);
    if (t.run) parts.push(["recorded in", t.run.replace(/^.*[\\/]/, "")]);
    facts.replaceChildren(...parts.map(([name, text]) => element("span", { "data-fact": name, title: name === "recorded in" ? t.run : undefined }, `${name} `, element("b", {}, text))));
  };

  const updateNote = (now: State, t: Training): void => {
    const elsewhere = now === "running" && !t.here;
    const text =
      wrong ? wrong
      : saved ? ""
      : !t.trainer ? "There is no trainer here. Pass one: Workbench(graph, trainer, data={\"x\": X, \"t\": y})."
      : now === "failed" ? `Parameters are those of the last whole step. ${model.get("message") ? "" : (t.error ?? "").split("\n")[0]}`
      : elsewhere && waitingRequests(model) ? "This kernel hears nothing while a cell runs. Training that is started with Start here runs in the background and can always be paused."
      : elsewhere && t.data ? "Started by a cell or a script. Training that is started here leaves the notebook free."
      : !t.data ? "No data was given, so training starts from code: trainer.fit(...). Pass data to start it here."
      : "";
    note.textContent = text;
    note.hidden = !text;
  };

  // A kernel that is busy with a cell may not hear this panel; ask before somebody presses a button in vain.
  const onState = (): void => {
    update();
    if (!saved && state() === "running" && !training().here) ask(model, "desk.hear");
  };

  const send = (rate: number): void => {
    asked++;
    ask(model, "rate.set", { value: rate }, () => {
      asked--;
      update();
    });
  };
  let timer: ReturnType<typeof setTimeout> | undefined;
  cleanup.dom(slider, "input", () => {
    held = true;
    value.value = rateText(scale.fromSlider(Number(slider.value)));
    timer ??= setTimeout(() => {
      timer = undefined;
      send(scale.fromSlider(Number(slider.value)));
    }, THROTTLE);
  });
  cleanup.dom(slider, "change", () => {
    held = false;
    clearTimeout(timer);
    timer = undefined;
    send(scale.fromSlider(Number(slider.value)));
  });
  /** Takes what was typed when the field is left or Enter is pressed, once. */
  const typed = (input: HTMLInputElement, take: (text: string) => void): void => {
    let before = "";
    const finish = (): void => {
      if (input.value !== before) take((before = input.value));
    };
    cleanup.dom(input, "focus", () => void (before = input.value));
    cleanup.dom(input, "change", finish);
    cleanup.dom(input, "keydown", (event) => void (event.key === "Enter" && finish()));
  };
  typed(value, (text) => {
    const rate = parseRate(text);
    if (typeof rate === "number") {
      typedWell(value.value);
      send(rate);
      return;
    }
    value.setAttribute("aria-invalid", "true");
    wrong = rate;
    updateNote(state(), training());
  });
  typed(epochs, (text) => {
    const count = Number(text);
    const fits = Number.isInteger(count) && count >= 1 && count <= 1_000_000;
    wrong = fits ? "" : `“${text}” epochs cannot be trained: it takes a whole number from 1 to ${grouped(1_000_000)}.`;
    if (fits) commit(model, "epochs", count);
    else epochs.value = String(model.get("epochs") ?? 1);
    updateNote(state(), training());
  });
  cleanup.dom(root, "keydown", (event) => {
    const target = event.target as HTMLElement;
    const types = target === epochs || target === value || target === record || target instanceof HTMLSelectElement;
    if (types || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === " " && !(target instanceof HTMLButtonElement)) main.click();
    else if (event.key === ".") single.click();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  cleanup.model(model, "change:state", onState);
  cleanup.model(model, "change:training", update);
  for (const trait of ["epochs", "record"] as const) cleanup.model(model, `change:${trait}`, update);
  cleanup.model(model, "change:metrics", () => methods.update(training()));
  // Every request is answered, also one that changes nothing.
  cleanup.model(model, "msg:custom", (content: Message) => {
    if (content.kind === "refused") update();
  });
  cleanup.model(model, "change:message", update);
  cleanup.add(onWaiting(model, update));
  cleanup.add(() => {
    clearTimeout(timer);
    root.remove();
  });
  update();
  schedule.update();
  return () => cleanup.run();
}
