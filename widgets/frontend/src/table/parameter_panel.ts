// The parameters of a graph with a box that freezes them, over the traits `parameters`, `frozen` and `selected`.
// The kernel decides: a box shows what it reports, and waits visibly for its answer.

import { ask, Cleanup, commit, type Model } from "../ui/afm";
import { element } from "../ui/dom";
import { shapeText } from "../ui/format";
import { addStyle } from "../ui/style";
import css from "./parameters.css";

addStyle(css);

interface Parameter {
  name: string;
  shape: number[];
  dtype: string;
  count: number;
}

export function mountParameterPanel(host: HTMLElement, model: Model): () => void {
  const cleanup = new Cleanup();
  const body = element("tbody");
  const totals = element("span", { class: "gw-subtitle" });
  const head = element("tr", {}, ...[["Frozen", "gw-cell-check"], ["Name", ""], ["Shape", ""], ["Type", ""], ["Count", "gw-cell-number"]].map(
    ([label, name]) => element("th", { scope: "col", class: name }, label),
  ));
  const scroll = element("div", { class: "gw-table-scroll" }, element("table", { class: "gw-table" }, element("thead", {}, head), body));
  const empty = element("div", { class: "gw-empty" }, "This graph has no parameters.");
  const root = element(
    "section",
    { class: "gw-parameters", "aria-label": "Parameters" },
    element("header", { class: "gw-toolbar" }, element("span", { class: "gw-title" }, "Parameters"), element("span", { class: "gw-space" }), totals),
    scroll,
    empty,
  );
  host.append(root);
  const rows = new Map<string, { row: HTMLTableRowElement; box: HTMLInputElement }>();
  const parameters = (): Parameter[] => (model.get("parameters") as Parameter[] | undefined) ?? [];

  const build = (): void => {
    rows.clear();
    const built = parameters().map(({ name, shape, dtype, count }) => {
      const box = element("input", { type: "checkbox", "aria-label": `Freeze ${name}` });
      box.addEventListener("change", () => {
        const frozen = box.checked;
        box.indeterminate = true;
        row.dataset.waiting = "true";
        ask(model, "parameters.freeze", { name, frozen });
      });
      const link = element("button", { type: "button", class: "gw-link", title: name }, name);
      link.addEventListener("click", () => commit(model, "selected", model.get("selected") === name ? "" : name));
      const row = element(
        "tr",
        { "data-name": name },
        element("td", { class: "gw-cell-check" }, box),
        element("td", { class: "gw-cell-name" }, link),
        element("td", {}, shapeText(shape)),
        element("td", {}, dtype),
        element("td", { class: "gw-cell-number" }, count.toLocaleString("en")),
      );
      rows.set(name, { row, box });
      return row;
    });
    body.replaceChildren(...built);
    empty.hidden = built.length > 0;
    scroll.hidden = !built.length;
    onFrozen();
    onSelected();
  };

  const onFrozen = (): void => {
    const frozen = new Set((model.get("frozen") as string[] | undefined) ?? []);
    for (const [name, { row, box }] of rows) {
      box.indeterminate = false;
      box.checked = frozen.has(name);
      row.classList.toggle("gw-frozen", box.checked);
      delete row.dataset.waiting;
    }
    const all = parameters();
    const count = (list: Parameter[]): number => list.reduce((sum, p) => sum + p.count, 0);
    const trainable = count(all.filter(({ name }) => !frozen.has(name)));
    totals.textContent = all.length ? `${trainable.toLocaleString("en")} of ${count(all).toLocaleString("en")} trainable` : "";
  };

  const onSelected = (): void => {
    const selected = model.get("selected");
    for (const [name, { row }] of rows) {
      const here = name === selected;
      if (here && !row.classList.contains("gw-selected")) row.scrollIntoView({ block: "nearest" });
      row.classList.toggle("gw-selected", here);
    }
  };

  cleanup.model(model, "change:parameters", build);
  cleanup.model(model, "change:frozen", onFrozen);
  cleanup.model(model, "change:selected", onSelected);
  // The kernel answers every request, also one that changes nothing or fails.
  cleanup.model(model, "msg:custom", (content: { kind?: string }) => {
    if (content.kind === "parameters.done" || content.kind === "refused") onFrozen();
  });
  cleanup.add(() => root.remove());
  build();
  return () => cleanup.run();
}
