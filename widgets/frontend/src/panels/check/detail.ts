// One parameter from close by: the map of its elements' errors, and the loss along the element that was clicked.

import { ask, Cleanup, commit, isSaved, type Model } from "../../core/afm";
import { button, element, select, textButton } from "../../core/dom";
import { compact, counted, errorText, grouped, minus, shapeText } from "../../core/format";
import { curveView, halfWidth, zooms } from "./curves";
import { heatmap, indexOf, placeOf } from "./heatmap";
import { placeKey, type CheckStore, type Place } from "./store";
import { shownVerdict, verdictMark, waysText, wayText, WORDS } from "./words";

const NOTHING = "";

export interface Detail {
  root: HTMLElement;
  update(): void;
}

export const focusOf = (model: Model): Partial<Place> => (model.get("check_focus") as Partial<Place> | undefined) ?? {};

export function mountDetail(model: Model, store: CheckStore, cleanup: Cleanup): Detail {
  const title = element("span", { class: "gw-title" });
  const facts = element("span", { class: "gw-subtitle" });
  const mark = element("span");
  const back = button("M10 3.5L5.5 8l4.5 4.5", "Back to all parameters", () => commit(model, "check_focus", {}));
  const mapHost = element("div", { class: "gw-map-host" });
  const info = element("div", { class: "gw-check-info", "aria-live": "polite" });
  const legend = element(
    "div",
    { class: "gw-heat", "aria-hidden": "true" },
    "1e−12", element("span", { class: "gw-heat-bar" }), "1",
    element("span", { class: "gw-heat-none" }), "not checked",
  );
  const picks = select("Elements worth a look", [], (value) => {
    if (value !== NOTHING) pick(JSON.parse(value) as Place);
  });
  const text = element("div", { class: "gw-check-words", role: "status" });
  const scales = element("div", { class: "gw-zooms", role: "group", "aria-label": "Width of the curve" });
  const curveHost = element("div", { class: "gw-curve-host" });
  const curveBox = element("div", { class: "gw-curve" }, element("div", { class: "gw-curve-head" }, text, scales), curveHost);
  const root = element(
    "div",
    { class: "gw-check-detail" },
    element("div", { class: "gw-check-bar" }, back, title, facts, element("span", { class: "gw-space" }), mark),
    mapHost,
    element("div", { class: "gw-check-under" }, info, legend),
    element("div", { class: "gw-check-picks" }, picks),
    curveBox,
  );
  let zoom = 1;
  let hovered = -1;
  const place = (k: number): Place => {
    const map = store.maps.get(focusOf(model).name ?? "")!;
    return { name: map.name, index: indexOf(map.at[k], map.shape), part: "real" };
  };
  const map = heatmap(mapHost, (k) => {
    hovered = k;
    describe();
  }, (k) => pick(place(k)));
  const curve = curveView(curveHost);
  cleanup.add(() => map.dispose());
  cleanup.add(() => curve.dispose());

  function pick(at: Place): void {
    commit(model, "check_focus", at);
    if (!store.curves.has(placeKey(at)) && !isSaved(model) && store.facts?.curves) ask(model, "check.curve", { ...at });
  }

  /** The element under the pointer, or what can be done here. */
  function describe(): void {
    const { name } = focusOf(model);
    const shown = name === undefined ? undefined : store.maps.get(name);
    if (!shown || hovered < 0 || hovered >= shown.at.length) {
      const row = store.parameters.get(name ?? "");
      info.textContent =
        !row?.checked ? "No element of it has been checked one by one."
        : !shown ? "Fetching the map …"
        : `${grouped(row.checked)} of ${grouped(row.size)} elements checked${waysText(row) && `: ${waysText(row)}`}. Click one to see the loss along it.`;
      return;
    }
    const k = hovered;
    const value = (a: Float64Array): string => (shown.complex ? `${compact(a[2 * k])} + ${compact(a[2 * k + 1])}i` : digits(a[k]));
    const index = indexOf(shown.at[k], shown.shape).join(", ");
    const error = Number.isNaN(shown.errors[k]) ? null : shown.errors[k];
    info.replaceChildren(
      element("strong", {}, `[${index}]`),
      ` gradient ${value(shown.analytic)}, measured ${value(shown.numeric)}, error ${errorText(error)}, ${WORDS[shown.verdicts[k]]}${wayText(shown.ways[k]) && `, ${wayText(shown.ways[k])}`}`,
    );
  }

  function update(): void {
    const { name, index, part } = focusOf(model);
    const row = store.parameters.get(name ?? "");
    root.hidden = !row;
    if (!row || name === undefined) return;
    store.want(model, name);
    title.textContent = name;
    title.title = name;
    facts.textContent = shapeText(row.shape as number[]);
    mark.replaceChildren(verdictMark(shownVerdict(row)));
    mark.title = row.surrogates.length ? `held against the declared gradients of ${row.surrogates.join(", ")}` : "";
    const shown = store.maps.get(name);
    map.show(shown, shown && index ? placeOf(index, shown.shape) : -1);
    describe();
    showPicks();
    const key = index ? placeKey({ name, index, part: part ?? "real" }) : "";
    const found = store.curves.get(key);
    curveBox.hidden = !index;
    curveHost.hidden = scales.hidden = !found;
    text.textContent =
      found?.text ??
      (isSaved(model) ? "This saved page has the curves of the elements in the list above."
      : store.facts?.curves === false ? "This report does not say what it ran on, so there is no curve."
      : "Computing the loss along this element …");
    text.dataset.verdict = found?.verdict ?? "";
    if (!found) return;
    zoom = Math.min(zoom, zooms(found) - 1);
    scales.replaceChildren(...Array.from({ length: zooms(found) }, (_, k) => {
      const choose = (): void => {
        zoom = k;
        update();
        (scales.children[k] as HTMLElement).focus();
      };
      return textButton("gw-zoom", `±${compact(halfWidth(found, k), 2)}`, choose, { "aria-pressed": String(k === zoom) });
    }));
    curve.show(found, zoom);
  }

  /** The worst elements as a menu; in a saved page those with a curve. */
  function showPicks(): void {
    const { name, index, part } = focusOf(model);
    const row = store.parameters.get(name ?? "")!;
    const options = new Map<string, string>();
    for (const t of row.troubles) options.set(placeKey({ name: row.name, ...t }), `[${t.index.join(", ")}] ${WORDS[t.verdict]}: ${t.text}`);
    for (const [key, c] of store.curves) if (c.name === name && !options.has(key)) options.set(key, `[${c.index.join(", ")}] ${WORDS[c.verdict]}: ${digits(c.analytic)}, measured ${digits(c.numeric)}`);
    const key = index ? placeKey({ name: row.name, index, part: part ?? "real" }) : "";
    const known = [...options].filter(([k]) => !isSaved(model) || store.curves.has(k));
    const made = known.map(([k, label]) => {
      const [n, i, p] = JSON.parse(k) as [string, number[], string];
      return element("option", { value: JSON.stringify({ name: n, index: i, part: p }), selected: k === key }, label);
    });
    const head = element("option", { value: NOTHING, selected: !options.has(key) }, `${counted(known.length, "element")} worth a look`);
    picks.replaceChildren(head, ...made);
    picks.hidden = !known.length;
  }

  return { root, update };
}

const digits = (value: number): string => (Number.isFinite(value) ? minus(value.toPrecision(6)) : compact(value));
