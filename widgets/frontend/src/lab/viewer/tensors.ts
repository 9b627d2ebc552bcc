// The tensors of a file: a table to sort and filter, and beside it the one that is chosen, as a picture.

import { element } from "../../core/dom";
import { bytesText, grouped, shapeText } from "../../core/format";
import { showPanel } from "../../core/shell";
import { tensorPanel } from "../../panels/tensor/panel";
import { longTable } from "./long_table";
import type { About } from "./page";
import { isAbort, problem } from "./problem";
import type { TensorRow, Tensors, TensorTold } from "./served";
import { TensorModel } from "./tensor_model";

const PAUSE = 200; // ms without a key before the filter is asked for

/** `sort` is the order at first, "" that of the file. */
export function fillTensors(host: HTMLElement, about: About, sort: string, end: AbortSignal): () => void {
  const { served, path, words } = about;
  const count = element("span", { class: "gw-subtitle", role: "status" });
  const filter = element("input", { class: "gw-input", type: "search", placeholder: words("Filter by name, dtype or shape"), "aria-label": words("Filter") });
  const detail = element("div", { class: "gw-file-detail" }, element("p", { class: "gw-table-note" }, words("Choose a tensor to see it; only what is shown is read.")));
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
      const model = new TensorModel(about, name, told);
      const down = showPanel(tensorPanel, detail, model);
      undo = () => {
        model.dispose();
        down();
      };
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
