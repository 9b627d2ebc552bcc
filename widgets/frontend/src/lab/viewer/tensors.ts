// The tensors of a file: a table to sort and filter, and beside it the one that is chosen, as a picture.

import { element } from "../../core/dom";
import { bytesText, grouped, shapeText } from "../../core/format";
import { SavedModel } from "../../core/saved";
import { showPanel } from "../../core/shell";
import { tensorPanel } from "../../panels/tensor/panel";
import { longTable } from "./long_table";
import type { About } from "./page";
import { isAbort, problem } from "./problem";
import type { TensorRow, Tensors, TensorTold, Words } from "./served";
import { TensorModel } from "./tensor_model";

const PAUSE = 200; // ms without a key before the filter is asked for

/** `sort` is the order at first, "" that of the file. */
export function fillTensors(host: HTMLElement, about: About, sort: string, end: AbortSignal): () => void {
  const { served, path, words } = about;
  const count = element("span", { class: "gw-subtitle", role: "status" });
  const filter = element("input", { class: "gw-input", type: "search", placeholder: words("Filter by name, dtype or shape"), "aria-label": words("Filter") });
  const advice = served.kept
    ? words("Choose a tensor to see it. This site has no server that reads files: it shows the values that were kept, and other slices and closer looks only of small tensors.")
    : words("Choose a tensor to see it; only what is shown is read.");
  const detail = element("div", { class: "gw-file-detail" }, element("p", { class: "gw-table-note" }, advice));
  let undo = (): void => undefined;
  let reading: AbortController | undefined;

  async function rows(start: number, n: number, sort: string): Promise<{ rows: TensorRow[]; found: number }> {
    const { tensors, found, total } = await served.get<Tensors>("tensors", { path, start, n, sort, filter: filter.value }, end);
    count.textContent = found === total ? words("%1 tensors", grouped(total)) : words("%1 of %2 tensors", grouped(found), grouped(total));
    return { rows: tensors, found };
  }

  async function show({ name }: TensorRow): Promise<void> {
    reading?.abort();
    const { signal } = (reading = new AbortController());
    const wait = setTimeout(() => detail.setAttribute("aria-busy", "true"), PAUSE);
    try {
      const told = await served.get<TensorTold>("tensor", { path, name }, signal);
      undo();
      detail.replaceChildren();
      undo = told.texts ? fillTexts(detail, told, words) : fillPicture(detail, about, told);
    } catch (error) {
      if (isAbort(error)) return;
      undo();
      undo = () => undefined;
      detail.replaceChildren(problem(error, words, () => void show({ name } as TensorRow)));
    } finally {
      clearTimeout(wait);
      if (!signal.aborted) detail.removeAttribute("aria-busy");
    }
  }

  const failed = (error: unknown): void => {
    if (!isAbort(error)) host.replaceChildren(problem(error, words));
  };
  const table = longTable<TensorRow>(words("Tensors"), [
    { title: words("tensor"), sort: "name", style: "gw-cell-name", cell: ({ name }) => name },
    { title: words("dtype"), sort: "dtype", cell: ({ dtype, form }) => (form ? `${dtype} (${form})` : dtype) },
    { title: words("shape"), sort: "shape", cell: ({ shape }) => shapeText(shape) },
    { title: words("size"), sort: "bytes", style: "gw-cell-number", cell: ({ bytes }) => bytesText(bytes) },
  ], sort, rows, (row) => void show(row), failed);

  let typing: ReturnType<typeof setTimeout> | undefined;
  filter.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(table.restart, PAUSE);
  });
  const list = element("div", { class: "gw-file-list" }, element("div", { class: "gw-file-bar" }, filter, count), table.root);
  host.append(element("div", { class: "gw-file-split" }, list, detail));
  return () => {
    clearTimeout(typing);
    reading?.abort();
    table.dispose();
    undo();
  };
}

/** The picture of a tensor. Without a server it is what is in a saved page, which has all of small tensors. */
function fillPicture(host: HTMLElement, about: About, told: TensorTold): () => void {
  const { served, words } = about;
  if (served.kept) return showPanel(tensorPanel, host, new SavedModel(told, words("This site has no server that reads files.")));
  const model = new TensorModel(about, told.name, told);
  const down = showPanel(tensorPanel, host, model);
  return () => {
    model.dispose();
    down();
  };
}

/** A tensor of text as a list. */
function fillTexts(host: HTMLElement, { name, shape, texts = [] }: TensorTold, words: Words): () => void {
  const total = shape.reduce((product, n) => product * n, 1);
  const more = total > texts.length ? [element("p", { class: "gw-table-note" }, words("and %1 more", grouped(total - texts.length)))] : [];
  host.append(element("div", { class: "gw-about", tabindex: 0, role: "region", "aria-label": name },
    element("h3", { class: "gw-title", title: name }, name), element("ol", { class: "gw-texts", start: 0 }, ...texts.map((text) => element("li", {}, text))), ...more));
  return () => undefined;
}
