// Two files side by side: what differs in structure, lit in the drawings of both, and how far their weights lie apart.

import { Cleanup } from "../../core/afm";
import { cutInto, nameLink } from "../../core/cut";
import { element, field, checkbox } from "../../core/dom";
import { compact, errorText, grouped } from "../../core/format";
import { rowTable, type Row } from "../../core/row_table";
import { tabStrip } from "../../core/tabs";
import { frameOf } from "./frame";
import { fillDrawing } from "./drawing";
import type { DrawingModel } from "./drawing_model";
import { Page, type About } from "./page";
import { isAbort, problem } from "./problem";
import type { Compared } from "./served";

const MOST = 500; // nodes listed of each kind

type Structure = NonNullable<Compared["structure"]>;
type Tensor = Compared["tensors"][number];
interface WeightRow extends Row {
  tensor: Tensor;
}

/** `a` and `b` are paths; whom to ask is said by `about`, whose own path is not looked at. */
export function mountComparison(host: HTMLElement, about: Omit<About, "path">, a: string, b: string): () => void {
  const { served, words } = about;
  const cleanup = new Cleanup();
  const end = new AbortController();
  const { root, head, body } = frameOf(host, cleanup);
  root.classList.add("gw-comparison");
  const summary = element("span", { class: "gw-subtitle", role: "status" }, words("Comparing …"));
  head.append(element("h2", { class: "gw-title" }, element("span", { title: a }, leaf(a)), " ⇄ ", element("span", { title: b }, leaf(b))), summary);
  const tensors: Tensor[] = [];
  const weights = weightTable(words);
  const pages: Page[] = [];
  cleanup.add(() => {
    end.abort();
    for (const page of pages) page.clear();
  });

  function build(structure: Structure | null): void {
    const page = (title: string, fill: ConstructorParameters<typeof Page>[2]): void => void pages.push(new Page(title, words, fill));
    if (structure) page(words("Structure"), (to, signal) => fillStructure(to, about, a, b, structure, signal));
    page(words("Weights"), (to) => {
      to.append(weights.root);
      return () => undefined;
    });
    const choose = (at: number): void => {
      strip.show(at);
      pages[at].show();
    };
    const strip = tabStrip(words("Parts of the comparison"), pages.map(({ title, host }) => ({ title, page: host })), choose);
    body.replaceChildren(strip.root, ...pages.map((page) => page.host));
    choose(0);
  }

  async function load(): Promise<void> {
    let structure: Structure | null = null;
    let begun = false;
    try {
      for (let start: number | null = 0; start !== null; ) {
        const told: Compared = await served.get<Compared>("compare", { a, b, start }, end.signal);
        if (told.structure !== undefined) build((structure = told.structure));
        begun = true;
        tensors.push(...told.tensors);
        start = told.next;
        weights.show(tensors, told.total);
        summary.textContent = [...structureText(structure, words), weightsText(tensors, told.total, words)].join(" · ");
      }
    } catch (error) {
      if (isAbort(error) || end.signal.aborted) return;
      const said = problem(error, words, begun ? undefined : () => void load());
      if (begun) root.insertBefore(said, body);
      else body.replaceChildren(said);
      summary.textContent = "";
    }
  }
  void load();
  return () => cleanup.run();
}

function leaf(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}

function isSame({ changed, added, removed }: Structure): boolean {
  return !changed.length && !added.length && !removed.length;
}

function structureText(structure: Structure | null, words: About["words"]): string[] {
  if (!structure) return [];
  if (isSame(structure)) return [words("the same structure")];
  const { changed, added, removed } = structure;
  const parts = [[changed.length, words("changed")], [added.length, words("added")], [removed.length, words("removed")]] as const;
  return [words("nodes: %1", parts.filter(([n]) => n).map(([n, what]) => `${grouped(n)} ${what}`).join(", "))];
}

function weightsText(tensors: readonly Tensor[], total: number, words: About["words"]): string {
  const differ = tensors.filter(({ status }) => status !== "equal").length;
  const done = tensors.length < total ? words("%1 of %2 tensors read", grouped(tensors.length), grouped(total)) : "";
  return [differ ? words("%1 of %2 tensors differ", grouped(differ), grouped(tensors.length)) : words("%1 tensors are equal", grouped(tensors.length)), done].filter(Boolean).join(", ");
}

/** The drawing of either file, with what it has that the other has not, and a list to go there. */
function fillStructure(host: HTMLElement, about: Omit<About, "path">, a: string, b: string, structure: Structure, end: AbortSignal): () => void {
  const { words } = about;
  const what = { name: words("its name"), op: words("another op"), spec: words("another shape or dtype"), inputs: words("other inputs") };
  const sides = [
    { title: words("Before: %1", leaf(a)), path: a, own: structure.removed, others: structure.changed.map((change) => change.a) },
    { title: words("After: %1", leaf(b)), path: b, own: structure.added, others: structure.changed.map((change) => change.b) },
  ];
  let model: DrawingModel | undefined;
  const pages = sides.map(({ title, path, own, others }) =>
    new Page(title, words, (to, signal) =>
      fillDrawing(to, { ...about, path }, signal, (made) => {
        model = made;
        made.light(words("beside the other file"), new Map([[words("changed"), others], [words("only here"), own]]));
      })));
  const choose = (at: number): void => {
    strip.show(at);
    pages.forEach((page, k) => k !== at && page.clear());
    pages[at].show();
  };
  const strip = tabStrip(words("Files"), pages.map(({ title, host: page }) => ({ title, page })), choose);
  const goTo = (side: number, node: string): void => {
    if (pages[side].host.hidden) choose(side);
    model?.point(node);
  };
  const item = (side: number, node: string, why = ""): HTMLElement =>
    element("li", {}, nameLink(node, () => goTo(side, node), node), ...(why ? [element("div", { class: "gw-subtitle", title: why }, why)] : []));
  const list = (title: string, items: HTMLElement[], total: number): HTMLElement[] => !total ? [] : [
    element("h3", {}, `${title} (${grouped(total)})`), element("ul", {}, ...items),
    ...(total > MOST ? [element("div", { class: "gw-table-note" }, words("and %1 more", grouped(total - MOST)))] : []),
  ];
  const side = element("div", { class: "gw-changes", tabindex: 0, role: "region", "aria-label": words("Changes") },
    ...(isSame(structure) ? [element("p", { class: "gw-file-lead" }, words("Both graphs have the same structure."))] : []),
    ...list(words("Changed"), structure.changed.slice(0, MOST).map((change) => item(1, change.b, change.differs.map((way) => what[way]).join(", "))), structure.changed.length),
    ...list(words("Added"), structure.added.slice(0, MOST).map((node) => item(1, node)), structure.added.length),
    ...list(words("Removed"), structure.removed.slice(0, MOST).map((node) => item(0, node)), structure.removed.length));
  host.append(element("div", { class: "gw-file-split" }, side, element("div", { class: "gw-file-detail" }, strip.root, ...pages.map((page) => page.host))));
  choose(1);
  end.addEventListener("abort", () => pages.forEach((page) => page.clear()));
  return () => pages.forEach((page) => page.clear());
}

/** Tensors of two files; those that are equal can be left out. */
function weightTable(words: About["words"]): { root: HTMLElement; show(tensors: readonly Tensor[], total: number): void } {
  const spec = (of: Tensor["a"]): string => of?.spec ?? "";
  const number = (value: number | string | null): number => (value === null ? Infinity : Number(value));
  const status: Record<Tensor["status"], string> = {
    equal: words("equal"), differs: words("differs"), "only a": words("only before"), "only b": words("only after"), shape: words("another shape"),
  };
  const table = rowTable<WeightRow>(words("Weights"), [
    { title: words("tensor"), style: "gw-cell-name", cell: ({ name, tensor }) => cutInto(element("div", { title: tensor.other && tensor.other !== name ? `${name} ⇄ ${tensor.other}` : name }), name), order: ({ name }) => name },
    { title: words("verdict"), style: "", cell: ({ tensor, verdict }) => element("span", { class: "gw-chip", "data-status": verdict }, status[tensor.status]), order: ({ verdict }) => verdict },
    { title: words("largest difference"), style: "gw-cell-number", cell: ({ tensor }) => measured(tensor.max, tensor), order: ({ tensor }) => number(tensor.max) },
    { title: words("relative"), style: "gw-cell-number", cell: ({ tensor }) => (comparable(tensor) ? errorText(finite(tensor.relative)) : ""), order: ({ tensor }) => number(tensor.relative) },
    { title: words("before"), style: "", cell: ({ tensor }) => spec(tensor.a), order: ({ tensor }) => spec(tensor.a) },
    { title: words("after"), style: "", cell: ({ tensor }) => spec(tensor.b), order: ({ tensor }) => spec(tensor.b) },
  ], ({ verdict }) => verdict !== "equal");
  let last: readonly WeightRow[] = [];
  const only = checkbox(() => table.show(last, only.checked, ""));
  const root = element("div", { class: "gw-file-list" }, element("div", { class: "gw-file-bar" }, field(words("Only what differs"), only)), table.root);
  return {
    root,
    show(tensors) {
      last = tensors.map((tensor) => ({ name: tensor.name || tensor.other, verdict: tensor.status, tensor }));
      table.show(last, only.checked, "");
    },
  };
}

function comparable({ status }: Tensor): boolean {
  return status === "equal" || status === "differs";
}

function finite(value: number | string | null): number | null {
  return value === null ? null : Number(value);
}

function measured(value: number | string | null, tensor: Tensor): string {
  if (!comparable(tensor)) return "";
  const text = value === null ? "NaN" : compact(Number(value));
  return tensor.every > 1 ? `≥ ${text}` : text;
}
