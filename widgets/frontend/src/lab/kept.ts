// What a server would say, from a site without one: answers that were written down when it was built.

import { URLExt } from "@jupyterlab/coreutils";
import { natural } from "../core/format";
import { Refused, type Drawn, type Query, type Served, type TensorRow, type Tensors } from "./viewer/served";

/** Asks below a folder of a static site. What was not written down is refused. */
export function keptIn(folder: string): Served {
  const read = async <T>(path: string, name: string, signal?: AbortSignal): Promise<T> => {
    const answer = await fetch(URLExt.join(folder, encodeURI(path), `${name}.json`), { signal });
    if (answer.ok) return (await answer.json()) as T;
    throw new Refused("This page has no server to ask", 404, path, ["it shows what was written down of the models that came with it"],
      "a JupyterLab with gradwright", "`make lab` in a clone of the repository opens one.", "absent");
  };
  return {
    kept: true,
    async get<T>(what: string, query: Query, signal?: AbortSignal): Promise<T> {
      const { path = "", name, node, ...others } = query;
      const told = <U>(file: string): Promise<U> => read<U>(String(path), file, signal);
      if (what === "tensors") return page(await told<Tensors>("tensors"), query) as T;
      if (Object.values(others).some((value) => value !== undefined)) return told<T>("not-kept");
      if (what === "values") {
        const { names } = (await told<Drawn>("drawing")).state.graph_spec as { names: string[] };
        return told<T>(`values-${names.indexOf(String(node))}`);
      }
      if (what !== "tensor") return told<T>(node === undefined ? what : "not-kept");
      const rows = (await told<Tensors>("tensors")).tensors;
      return told<T>(`tensor-${rows.findIndex((row) => row.name === name)}`);
    },
  };
}

const ORDERS: Record<string, (a: TensorRow, b: TensorRow) => number> = {
  name: (a, b) => natural(a.name, b.name),
  bytes: (a, b) => a.bytes - b.bytes,
  dtype: (a, b) => (a.dtype < b.dtype ? -1 : Number(a.dtype > b.dtype)),
  shape: (a, b) => size(a) - size(b),
};

const size = ({ shape }: TensorRow): number => shape.reduce((product, n) => product * n, 1);

/** The rows that a page of the table shows, as the server would choose them. */
function page(all: Tensors, { start = 0, n = 200, sort = "", filter = "" }: Query): Tensors {
  const words = String(filter).toLowerCase().split(/\s+/).filter(Boolean);
  const text = ({ name, dtype, shape }: TensorRow): string => `${name} ${dtype}[${shape.join(", ")}]`.toLowerCase();
  const found = all.tensors.filter((row) => words.every((word) => text(row).includes(word)));
  const order = ORDERS[String(sort).replace("-", "")];
  if (order) found.sort(order);
  if (String(sort).startsWith("-")) found.reverse();
  return { ...all, found: found.length, start: Number(start), tensors: found.slice(Number(start), Number(start) + Number(n)) };
}
