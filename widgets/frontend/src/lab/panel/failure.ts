// An error of a graph in the side panel: what it says, the half-built graph, and the way to its line.

import { button, element, ICONS, textButton } from "../../core/dom";
import type { Words } from "../viewer/served";
import type { Failure, Place } from "./told";

export class FailureCard {
  readonly root = element("section", { class: "gw-side-failure", role: "region", hidden: true, tabindex: -1 });

  constructor(private readonly words: Words, private readonly go: (place: Place) => void, private readonly dismiss: () => void) {
    this.root.setAttribute("aria-label", words("The last error"));
  }

  show(failure: Failure | null): void {
    const { root, words } = this;
    root.hidden = !failure;
    if (!failure) return root.replaceChildren();
    const { place } = failure;
    const line = place.line > 0 ? [textButton("gw-hop", place.where || `${place.file}:${place.line}`, () => this.go(place), { title: words("Go to the line") })] : [];
    const picture = element("img", { class: "gw-side-picture", alt: `${failure.kind}: ${failure.problem}`, src: `data:image/svg+xml;base64,${encoded(failure.svg)}` });
    const facts = failure.facts.map((fact) => element("div", { class: "gw-code" }, fact));
    const rows = [[words("needed"), failure.need], [words("try"), failure.hint], [failure.op, failure.about]].filter(([, text]) => text);
    root.replaceChildren(
      element("h3", {}, `${failure.kind} `, element("span", { class: "gw-side-quiet" }, `${words("at")} ${failure.node}`), ...line, button(ICONS.cross, words("Dismiss this error"), this.dismiss)),
      element("p", {}, failure.problem),
      ...facts,
      element("dl", {}, ...rows.flatMap(([head, text]) => [element("dt", {}, head), element("dd", { class: head === failure.op ? "" : "gw-code" }, text)])),
      picture,
    );
  }
}

/** Text as base64 of its UTF-8. */
function encoded(text: string): string {
  return btoa(Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte)).join(""));
}
