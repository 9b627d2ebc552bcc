// The adapters of a model: each with its switch, weight and merge, what it trains place by place, how large that has become, and
// those on disk. The kernel decides; a switch shows what it reports.

import { ask, Cleanup, commit, isSaved, type Model, type Named } from "../../core/afm";
import { action, checkbox, element, everyFrame, example, field, textButton } from "../../core/dom";
import { bars, line } from "../../core/figures";
import { bytesText, compact, counted, grouped } from "../../core/format";
import type { Panel } from "../../core/panel";
import { addStyle } from "../../core/style";
import css from "./adapters.css";
import { deltaStore, type DeltaStore } from "./store";

addStyle(css);

interface Adapter {
  name: string;
  method: string;
  settings: string;
  on: boolean;
  merged: boolean;
  weight: number;
  places: number;
  trained: number;
  bytes: number;
  all: number;
}

/** What is trained at a place; `adapter` is "" of what is the model's own. */
interface Place {
  adapter: string;
  place: string;
  leaves: string;
  trained: number;
  bytes: number;
  percent: number | null;
}

interface Drift {
  output: string;
  relative: number;
  largest: number;
  /** Share of rows whose largest number stands where it did; null of an output without rows. */
  same: number | null;
  packed: number;
}

interface File {
  name: string;
  method: string;
  about: string;
  bytes: number;
}

export const adaptersPanel: Panel<DeltaStore> = { prepare: deltaStore, mount: mountAdapterPanel };

function mountAdapterPanel(host: HTMLElement, model: Model, store: DeltaStore): () => void {
  const cleanup = new Cleanup();
  const saved = isSaved(model);
  const list = <T>(key: Named<object[]>): T[] => (model.get(key) as T[] | undefined) ?? [];
  const subtitle = element("span", { class: "gw-subtitle" });
  const cards = element("div", { class: "gw-adapter-cards" });
  const body = element("tbody");
  const heads = ["Place", "Variables", "Trained", "Bytes", "Of weight", "Norm", "Rank"].map((title, k) => element("th", { scope: "col", class: `${k > 1 ? "gw-cell-number" : ""} ${k === 1 ? "gw-cell-extra" : k === 3 || k === 4 ? "gw-cell-more" : ""}` }, title));
  const scroll = element("div", { class: "gw-table-scroll", tabindex: 0 }, element("table", { class: "gw-table", "aria-label": "What is trained" }, element("thead", {}, element("tr", {}, ...heads)), body));
  const detail = element("div", { class: "gw-adapter-detail" });
  const files = element("ul", {});
  const count = element("span", { class: "gw-detail" });
  const disk = element("details", { class: "gw-adapter-files" }, element("summary", {}, "On disk ", count), files);
  const empty = element("div", { class: "gw-empty" }, "This model has no adapters. Add one:", example('gw.adapters.add(model, gw.adapters.LoRA(r=8), where="q|v")'));
  const root = element(
    "section", { class: "gw-adapters", "aria-label": "Adapters" },
    element("header", { class: "gw-toolbar" }, element("span", { class: "gw-title" }, "Adapters"), subtitle), cards, scroll, detail, disk, empty,
  );
  host.append(root);
  let rows: { key: string; row: HTMLElement; norm: HTMLElement; rank: HTMLElement; past: HTMLElement }[] = [];

  function card(adapter: Adapter): HTMLElement {
    const { name, on, merged, weight } = adapter;
    const box = checkbox((wanted) => {
      box.checked = on; // until the kernel has done it
      ask(model, "adapters.switch", { name, on: wanted });
    }, { role: "switch", "aria-label": `Compute with ${name}`, title: merged ? "It is in the weights" : on ? "Switch it off" : "Switch it on" });
    box.checked = on;
    box.disabled = saved || merged;
    const number = element("input", { class: "gw-input gw-adapter-weight", type: "number", step: "any", value: weight, "aria-label": `Weight of ${name}` });
    number.addEventListener("change", () => (Number.isFinite(number.valueAsNumber) ? ask(model, "adapters.weigh", { name, weight: number.valueAsNumber }) : (number.value = String(weight))));
    number.disabled = saved || merged;
    const drift = (model.get("adapter_drift") as Record<string, Drift> | undefined)?.[name];
    const deeds = saved ? [] : [
      ...(merged ? [] : [action("Drift", () => ask(model, "adapters.drift", { name }))]),
      action(merged ? "Unmerge" : "Merge", () => ask(model, merged ? "adapters.unmerge" : "adapters.merge", { name })),
    ];
    if (!merged && deeds[0]) deeds[0].title = "Measures how far a merge moves the output, and takes it back";
    const size = `${counted(adapter.places, "place")} · ${grouped(adapter.trained)} numbers · ${bytesText(adapter.bytes)}`;
    return element(
      "div", { class: "gw-adapter", "data-name": name, "data-on": on || merged },
      element(
        "div", { class: "gw-adapter-head" }, box, element("strong", {}, name), element("span", { class: "gw-code gw-adapter-settings" }, `${adapter.method}(${adapter.settings})`),
        ...(merged ? [element("span", { class: "gw-chip" }, "merged")] : []), field("Weight", number), ...deeds,
      ),
      element("div", { class: "gw-detail" }, size),
      ...(drift ? [element("div", { class: "gw-adapter-drift", role: "status" }, driftText(drift, merged))] : []),
    );
  }

  function build(): void {
    const adapters = list<Adapter>("adapters");
    const places = list<Place>("adapter_rows");
    const trained = places.reduce((sum, row) => sum + row.trained, 0);
    const all = adapters[0]?.all ?? 0;
    subtitle.textContent = all ? `${grouped(trained)} of ${grouped(all)} numbers are trained · ${compact((100 * trained) / all, 3)} %` : "";
    cards.replaceChildren(...adapters.map(card));
    const layers = new Map<string, Place[]>();
    for (const row of places) {
      const layer = row.place.includes("/") ? row.place.slice(0, row.place.lastIndexOf("/")) : "";
      layers.set(layer, [...(layers.get(layer) ?? []), row]);
    }
    rows = [];
    const several = new Set(places.map(({ adapter }) => adapter)).size > 1;
    body.replaceChildren(...[...layers].flatMap(([layer, held]) => {
      const sum = (of: "trained" | "bytes"): number => held.reduce((total, row) => total + row[of], 0);
      const grouping = layer && held.length > 1;
      const head = grouping ? [element("tr", { class: "gw-adapter-layer" }, cell(layer), cell("", "gw-cell-extra"), number(grouped(sum("trained"))), number(bytesText(sum("bytes")), "gw-cell-more"), number("", "gw-cell-more"), number(""), number(""))] : [];
      return [...head, ...held.map((row) => placeRow(row, grouping ? row.place.slice(layer.length + 1) : row.place, several))];
    }));
    const found = list<File>("adapter_files");
    count.textContent = found.length ? String(found.length) : "";
    disk.hidden = !model.get("adapter_folder");
    files.replaceChildren(...found.map((file, at) => element(
      "li", {},
      element("strong", {}, file.name), element("span", { class: "gw-detail" }, [file.method, file.about, file.bytes ? bytesText(file.bytes) : ""].filter(Boolean).join(" · ")),
      ...(saved || !file.method ? [] : [textButton("gw-text-link", "Load", () => ask(model, "adapters.load", { at }), { "aria-label": `Load ${file.name}` })]),
    )));
    empty.hidden = adapters.length > 0 || found.length > 0;
    scroll.hidden = cards.hidden = !adapters.length;
    update();
  }

  function placeRow({ adapter, place, leaves, trained, bytes, percent }: Place, label: string, several: boolean): HTMLElement {
    const key = String([adapter, place]);
    const link = textButton("gw-link", label, () => commit(model, "adapter_place", chosen() === key ? [] : [adapter, place]), { title: place, "aria-label": place });
    const [past, norm, rank] = [element("span", { class: "gw-adapter-past" }), element("span"), element("span")];
    const name = element("div", { class: "gw-adapter-name" }, link, ...(several ? [element("span", { class: "gw-chip" }, adapter || "the model's")] : []));
    const row = element(
      "tr", { "data-place": place, "data-adapter": adapter },
      element("td", { class: "gw-cell-name" }, name), cell(leaves, "gw-code gw-cell-extra"), number(grouped(trained)), number(bytesText(bytes), "gw-cell-more"),
      number(percent === null ? "" : `${compact(percent, 3)} %`, "gw-cell-more"), element("td", { class: "gw-cell-number" }, element("div", { class: "gw-adapter-norm" }, past, norm)), element("td", { class: "gw-cell-number" }, rank),
    );
    rows.push({ key, row, norm, rank, past });
    return row;
  }

  const chosen = (): string => String(model.get("adapter_place") ?? "");

  /** Writes what is measured into rows that stand. */
  function update(): void {
    let ranks = false;
    for (const { key, row, norm, rank, past } of rows) {
      const norms = store.norm(key);
      const left = store.rank(key);
      ranks ||= left.length > 0;
      norm.textContent = norms.length ? compact(norms[norms.length - 1], 3) : "";
      past.replaceChildren(...(norms.length > 1 ? [line(norms, 56, 16)] : []));
      rank.textContent = left.length ? String(left[left.length - 1]) : "";
      row.classList.toggle("gw-selected", key === chosen());
    }
    root.toggleAttribute("data-ranks", ranks);
    drawDetail();
  }

  function drawDetail(): void {
    const key = chosen();
    const [values, norms, ranks] = [store.spectrum(key), store.norm(key), store.rank(key)];
    detail.hidden = !rows.some((row) => row.key === key) || !norms.length;
    if (detail.hidden) return;
    const [, place = ""] = (model.get("adapter_place") as string[] | undefined) ?? [];
    const figure = (title: string, words: string, picture: Node): HTMLElement => element("figure", {}, element("figcaption", {}, element("strong", {}, title), " ", words), picture);
    const steps = store.steps.length > 1 ? `steps ${grouped(store.steps[0])} to ${grouped(store.steps[store.steps.length - 1])}` : "";
    const energy = values.reduce((sum, value) => sum + value * value, 0);
    const first = `σ₁ ${compact(values[0] ?? 0, 3)}, ${Math.round((100 * (values[0] ?? 0) ** 2) / energy)} % of ‖Δ‖²`;
    detail.replaceChildren(
      element("div", { class: "gw-adapter-about" }, element("strong", { class: "gw-code" }, place), ...(norms[norms.length - 1] ? [] : [" ", element("span", { class: "gw-detail" }, "adds nothing")])),
      ...(energy ? [figure("Singular values", first, bars(values, 232, 64, `Singular values: ${values.map((value) => compact(value, 3)).join(", ")}`, (value, k) => `σ${k + 1} = ${compact(value, 4)}`))] : []),
      ...(norms.length > 1 ? [figure("Norm", `${compact(norms[0], 3)} → ${compact(norms[norms.length - 1], 3)}, ${steps}`, line(norms, 232, 64))] : []),
      ...(ranks.length > 1 ? [figure("Rank", `${ranks[0]} → ${ranks[ranks.length - 1]}, ${steps}`, line(ranks, 232, 64, true))] : []),
    );
  }

  const frame = everyFrame(build, cards, body, files);
  const numbers = everyFrame(update, body);
  for (const key of ["adapters", "adapter_rows", "adapter_drift", "adapter_files", "adapter_folder"] as const) cleanup.model(model, `change:${key}`, frame.request);
  cleanup.model(model, "change:adapter_place", numbers.request);
  cleanup.add(store.listen(numbers.request));
  cleanup.dom(disk, "toggle", () => disk.open && !saved && ask(model, "adapters.look"));
  cleanup.add(() => {
    frame.cancel();
    numbers.cancel();
    root.remove();
  });
  build();
  return () => cleanup.run();
}

const cell = (text: string, style = ""): HTMLElement => element("td", { class: style }, text);
const number = (text: string, style = ""): HTMLElement => cell(text, `gw-cell-number ${style}`);

function driftText({ output, relative, largest, same, packed }: Drift, merged: boolean): string {
  const again = packed ? `, ${counted(packed, "weight")} packed again` : "";
  return `${merged ? "The merge has moved" : "A merge moves"} ${output} by ${compact(100 * relative, 3)} %, at most ${compact(largest, 3)}${same === null ? "" : `; ${compact(100 * same, 3)} % of its rows have the same largest number`}${again}.`;
}
