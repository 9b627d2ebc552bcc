// A look into a kernel: its text with what each line has set, the arrays with who touches them, a program line by line, and what
// the launch takes on a GPU. Everything runs on a simulated GPU, in the kernel.

import { ask, Cleanup, commit, isSaved, type Model } from "../../core/afm";
import { action, button, element, everyFrame, example, ICONS, select, textButton } from "../../core/dom";
import { bytesText, compact, counted, grouped, shapeText } from "../../core/format";
import type { Panel } from "../../core/panel";
import { addStyle } from "../../core/style";
import { themeOf } from "../../core/theme";
import { code } from "./code";
import { costTable, touchTable } from "./facts";
import { drawTile, drawValue, type Grid, operandGrid, programColor } from "./grids";
import { kernelStore, type Access, type KernelStore, type StepRow } from "./store";
import css from "./kernels.css";

addStyle(css);

type Face = "source" | "cost" | "ptx" | "sass";
const FACES: readonly (readonly [Face, string])[] = [["source", "Source"], ["cost", "Cost"], ["ptx", "PTX"], ["sass", "SASS"]];
const CHIPS = [["80", "A100"], ["90", "H100"], ["100", "B200"]] as const;
const RUNS = new Set(["kernel", "product"]);

export const kernelsPanel: Panel<KernelStore> = { prepare: kernelStore, mount: mountKernels };

function mountKernels(host: HTMLElement, model: Model, store: KernelStore): () => void {
  const cleanup = new Cleanup();
  const saved = isSaved(model);
  let face: Face = "source";
  let grids: Grid[] = [];
  let built: unknown;
  let asked = "";

  const at = (): number => Math.min(Number(model.get("kernel_line") ?? 0), Math.max(0, (store.program?.lines.length ?? 1) - 1));
  const running = (): boolean => model.get("kernel_state") === "running";
  const chosen = (): number => store.program?.program ?? 0;
  const visit = (line: number): void => commit(model, "kernel_line", Math.max(0, Math.min(line, (store.program?.lines.length ?? 1) - 1)));
  /** The line before or after this one that is in no function which it calls. */
  const over = (way: number): number => {
    const lines = store.program?.lines ?? [];
    const depth = lines[at()]?.depth ?? 0;
    let line = at() + way;
    while (lines[line] && lines[line].depth > depth) line += way;
    return lines[line] ? line : at();
  };
  const look = (facts: Record<string, unknown> = {}): void => ask(model, "kernels.look", { launch: 0, ...facts });
  const toProgram = (program: number): void => ask(model, "kernels.program", { program });

  const facts = element("span", { class: "gw-subtitle" });
  const steps = element("select", { class: "gw-select gw-kernels-steps", "aria-label": "Step" });
  steps.addEventListener("change", () => look({ step: Number(steps.value) }));
  const launches = element("select", { class: "gw-select", "aria-label": "Launch" });
  launches.addEventListener("change", () => look({ step: Number(model.get("kernel_step")), launch: Number(launches.value) }));
  const run = action("Look", () => look({ node: String(model.get("selected") ?? "") }), true);
  const faces = FACES.map(([name, title]) => {
    const made = textButton("gw-tab", title, () => show(name), { role: "tab" });
    return { name, made };
  });
  const chip = select("GPU", CHIPS, (value) => {
    commit(model, "kernel_chip", value);
    wantCost(true);
  });
  const findings = element("div", { class: "gw-kernels-findings", role: "alert" });
  const text = code(visit, (node) => commit(model, "selected", node));
  const cost = element("div", { class: "gw-kernels-cost" });
  const machine = element("pre", { class: "gw-kernels-machine gw-code", tabindex: 0, "aria-label": "Machine code" });
  const left = element(
    "div",
    { class: "gw-kernels-left" },
    element("div", { class: "gw-kernels-faces" }, element("div", { class: "gw-tabs", role: "tablist", "aria-label": "What is shown of the kernel" }, ...faces.map(({ made }) => made)), element("span", { class: "gw-space" }), chip),
    text.root, cost, machine,
  );
  const programs = element("div", { class: "gw-kernels-programs", role: "group", "aria-label": "Programs" });
  const operands = element("div", { class: "gw-kernels-operands" });
  const legend = element("div", { class: "gw-kernels-legend" }, ...(["this line", "this program", "others", "nobody"] as const).map((word) => element("span", { "data-of": word }, word)));
  const users = element("div", { class: "gw-kernels-users", role: "status" });
  const tile = element("canvas", { role: "img", class: "gw-kernels-canvas" });
  const tileText = element("figcaption");
  const tileBox = element("figure", { class: "gw-kernels-operand" }, tileText, element("div", { class: "gw-kernels-sheet" }, tile));
  const variables = element("div", { class: "gw-kernels-variables", role: "group", "aria-label": "Variables" });
  const value = element("canvas", { role: "img", class: "gw-kernels-canvas" });
  const valueText = element("figcaption");
  const valueBox = element("figure", { class: "gw-kernels-operand" }, valueText, element("div", { class: "gw-kernels-sheet" }, value));
  const right = element("div", { class: "gw-kernels-right" }, part("Programs", programs), part("Arrays", legend, operands, users), part("This line", tileBox, variables, valueBox));
  const slider = element("input", { type: "range", min: 0, step: 1, "aria-label": "Line of the program", class: "gw-kernels-slider" });
  slider.addEventListener("input", () => visit(slider.valueAsNumber));
  const place = element("span", { class: "gw-detail gw-kernels-place" });
  const controls = element(
    "footer",
    { class: "gw-status gw-kernels-controls" },
    element("span", { class: "gw-group" }, button(ICONS.rewind, "To the first line", () => visit(0)), button(ICONS.back, "A line back", () => visit(over(-1))), button(ICONS.next, "A line on", () => visit(over(1))), button(ICONS.into, "Into the function that the next line calls", () => visit(at() + 1))),
    slider, place,
  );
  const hint = example("");
  const empty = element(
    "div",
    { class: "gw-empty" },
    element("p", {}, "Look runs a kernel of this graph on a simulated GPU, on real numbers: what each program reads and writes, and what it computes, line by line."),
    hint,
  );
  const body = element("div", { class: "gw-kernels-body" }, left, right);
  const root = element(
    "section",
    { class: "gw-kernels", "aria-label": "Kernels" },
    element("header", { class: "gw-toolbar" }, element("span", { class: "gw-title" }, "Kernels"), facts, element("span", { class: "gw-space" }), steps, launches, run),
    findings, body, controls, empty,
  );
  host.append(root);
  const theme = themeOf(host, cleanup, () => frame.request());

  function show(wanted: Face): void {
    face = wanted;
    wantCost(false);
    frame.request();
  }

  function wantCost(again: boolean): void {
    const key = `${model.get("kernel_step")} ${model.get("kernel_launch")} ${model.get("kernel_chip")}`;
    if (face === "source" || saved || !store.launch || (store.cost && !again) || (asked === key && !again)) return;
    asked = key;
    ask(model, "kernels.cost", { chip: Number(model.get("kernel_chip")) });
  }

  function build(): void {
    const { launch } = store;
    built = launch;
    grids = launch?.operands.map((operand, k) => operandGrid(operand, k, (chosenElement) => saved || ask(model, "kernels.users", { argument: k, element: chosenElement }))) ?? [];
    operands.replaceChildren(...grids.map(({ root: made }) => made));
    programs.replaceChildren(...(launch?.programs ?? []).map((program) => textButton("gw-kernels-program", String(program), () => toProgram(program), { "data-program": program, disabled: saved })));
    steps.replaceChildren(...store.steps.filter(({ what }) => RUNS.has(what)).map(option));
    launches.replaceChildren(...Array.from({ length: launch?.launches ?? 0 }, (_, k) => element("option", { value: k }, `Launch ${k + 1}`)));
    findings.replaceChildren(...[...(launch?.findings ?? []).map((finding) => {
      const who = finding.program < 0 ? "" : `, program ${finding.program}`;
      const link = textButton("gw-text-link", `line ${finding.line}${who}`, () => (finding.program < 0 ? undefined : toProgram(finding.program)), { disabled: saved || finding.program < 0 });
      return element("div", {}, link, ` ${finding.parameter}${finding.name ? ` (${finding.name})` : ""} ${finding.text}`);
    }), ...(launch?.error ? [element("div", {}, launch.error)] : [])]);
  }

  function draw(): void {
    const { launch, program } = store;
    if (built !== launch || steps.options.length !== store.steps.filter(({ what }) => RUNS.has(what)).length) build();
    const colors = theme();
    const busy = running();
    root.dataset.state = String(model.get("kernel_state"));
    body.hidden = controls.hidden = !launch;
    empty.hidden = Boolean(launch);
    hint.textContent = String(model.get("kernel_hint") ?? "");
    hint.hidden = !hint.textContent;
    const wanted = String(model.get("selected") ?? "");
    run.hidden = saved || (Boolean(launch) && (!wanted || launch!.nodes.includes(wanted)));
    run.disabled = busy || Boolean(hint.textContent);
    run.textContent = busy ? "Running …" : launch ? `Look at ${wanted.split("/").at(-1) || wanted}` : "Look";
    run.title = wanted;
    run.classList.toggle("gw-action-main", !launch);
    steps.hidden = !steps.options.length || !launch;
    launches.hidden = (launch?.launches ?? 0) < 2;
    steps.disabled = launches.disabled = busy || saved;
    steps.value = String(model.get("kernel_step"));
    launches.value = String(model.get("kernel_launch"));
    chip.value = String(model.get("kernel_chip"));
    findings.hidden = !findings.childNodes.length;
    const together = store.steps.find(({ number }) => number === launch?.step)?.why;
    facts.textContent = busy ? "running …" : launch ? `${launch.name} · ${counted(launch.total, "program")}${launch.programs.length < launch.total ? `, ${launch.programs.length} looked at` : ""} · ${bytesText(launch.bytes)}${together ? ` · ${together}` : ""}` : "";
    if (!launch || !colors) return;
    for (const { name, made } of faces) made.setAttribute("aria-selected", String(name === face));
    text.root.hidden = face !== "source";
    cost.hidden = face !== "cost";
    machine.hidden = face !== "ptx" && face !== "sass";
    chip.hidden = face === "source";
    if (face === "cost") cost.replaceChildren(...(store.cost ? [costTable(store.cost)] : [waiting()]), element("h4", {}, "Memory, line by line"), touchTable(launch));
    if (!machine.hidden) machine.textContent = store.cost ? (face === "ptx" ? store.cost.ptx : store.cost.sass || "This Triton brings no nvdisasm.") : "Compiling …";
    const line = at();
    const ran = program?.lines[line];
    const now = ran?.accesses.at(-1);
    text.show(store, line);
    for (const made of programs.children as HTMLCollectionOf<HTMLElement>) {
      const number = Number(made.dataset.program);
      made.style.setProperty("--gw-own", programColor(colors, number));
      made.setAttribute("aria-pressed", String(number === chosen()));
    }
    legend.style.setProperty("--gw-own", programColor(colors, chosen()));
    for (const made of grids) made.draw(store, colors, now, chosen());
    drawUsers();
    drawLine(now);
    slider.max = String(Math.max(0, (program?.lines.length ?? 1) - 1));
    slider.value = String(line);
    const end = program?.cut ? `the first ${program.lines.length} lines` : counted(program?.lines.length ?? 0, "line");
    place.textContent = ran ? `program ${chosen()} · line ${ran.line} · ${line + 1} of ${end}` : "";
  }

  function waiting(): HTMLElement {
    return element("div", { class: "gw-table-note" }, saved ? "Not compiled when this page was saved." : "Compiling …");
  }

  function drawUsers(): void {
    const known = store.users;
    users.hidden = !known;
    if (!known || !store.launch) return;
    const { parameter, shape } = store.launch.operands[known.argument];
    const links = (word: string, who: number[]): (Node | string)[] =>
      who.length ? [` ${word} `, ...who.slice(0, 12).flatMap((program, k) => [k ? ", " : "", textButton("gw-text-link", String(program), () => toProgram(program), { title: `Show program ${program}`, disabled: saved })]), who.length > 12 ? ` and ${who.length - 12} more` : ""] : [];
    const parts = [...links("is read by", known.reads), ...(known.reads.length && known.writes.length ? [";"] : []), ...links("is written by", known.writes)];
    users.replaceChildren(element("span", { class: "gw-code" }, `${parameter}[${index(known.element, shape).join(", ")}]`), ...(parts.length ? parts : [" is touched by nobody"]));
  }

  function drawLine(now: Access | undefined): void {
    const colors = theme();
    tileBox.hidden = !now || !colors;
    if (now && colors) {
      const operand = store.launch?.operands[now.argument];
      const lanes = store.lanes(now);
      const outside = lanes.reduce((sum, lane) => sum + Number(lane === 2), 0);
      tileText.replaceChildren(
        element("span", {}, `${now.how} ${operand?.parameter ?? "through a pointer"}`),
        element("span", { class: "gw-kernels-quiet" }, `tile ${shapeText(now.shape)}${now.masked ? ` · ${grouped(now.masked)} masked off` : ""}`),
        ...(outside ? [element("strong", { class: "gw-kernels-wrong" }, `${grouped(outside)} outside`)] : []),
      );
      drawTile(tile, store, now, colors, tileBox.clientWidth - 2);
    }
    const line = at();
    const fresh = new Set(store.program?.lines[line]?.changed.map(({ name }) => name));
    variables.replaceChildren(...store.variables(line).map((variable) => {
      const range = variable.low === null || variable.high === null ? "" : `${compact(variable.low)} … ${compact(variable.high)}`;
      const made = textButton("gw-kernels-variable", "", () => ask(model, "kernels.value", { line, name: variable.name }), { "data-fresh": fresh.has(variable.name), disabled: saved || variable.size < 2, title: `${variable.name}: ${variable.type} ${variable.text}` });
      made.append(element("span", { class: "gw-code" }, variable.name), element("span", { class: "gw-code gw-kernels-quiet" }, variable.type), element("span", { class: "gw-kernels-value" }, range || variable.text));
      return made;
    }));
    valueBox.hidden = !store.value || !colors;
    if (store.value && colors) {
      const range = drawValue(value, store, colors, valueBox.clientWidth - 2);
      valueText.replaceChildren(element("span", { class: "gw-code" }, store.value.name), element("span", { class: "gw-code gw-kernels-quiet" }, store.value.type), element("span", { class: "gw-kernels-quiet" }, `${range}${store.value.cut ? " · the first of it" : ""}`));
    }
  }

  const frame = everyFrame(draw, programs, variables);
  const keys = { ArrowRight: 1, ArrowLeft: -1 } as Record<string, number>;
  cleanup.dom(text.root, "keydown", (event) => {
    if (!(event.key in keys)) return;
    event.preventDefault();
    visit(over(keys[event.key]));
  });
  const seen = new ResizeObserver(frame.request);
  seen.observe(right);
  cleanup.add(() => seen.disconnect());
  for (const trait of ["kernel_state", "kernel_step", "kernel_launch", "kernel_program", "kernel_line", "kernel_chip", "kernel_hint", "selected"] as const) cleanup.model(model, `change:${trait}`, frame.request);
  cleanup.add(store.listen(() => {
    if (!store.cost) wantCost(false);
    frame.request();
  }));
  cleanup.add(() => {
    frame.cancel();
    root.remove();
  });
  draw();
  return () => cleanup.run();
}

function part(title: string, ...children: HTMLElement[]): HTMLElement {
  return element("div", { class: "gw-kernels-part" }, element("h4", {}, title), ...children);
}

function option({ number, ops, nodes }: StepRow): HTMLElement {
  const more = nodes.length > 1 ? ` +${nodes.length - 1}` : "";
  return element("option", { value: number, title: nodes.join("\n") }, `${number} · ${nodes[0] ?? ""}${more} · ${ops.slice(0, 4).join(" ")}${ops.length > 4 ? " …" : ""}`);
}

/** The index of an element of a shape by its number. */
function index(element: number, shape: readonly number[]): number[] {
  const found: number[] = [];
  let rest = element;
  for (const size of [...shape].reverse()) {
    found.unshift(rest % size);
    rest = Math.floor(rest / size);
  }
  return found;
}
