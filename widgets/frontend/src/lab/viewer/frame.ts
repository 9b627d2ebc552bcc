// The frame of a document: the style sheet, a head, and room for what is in it, in the palette of the page.

import type { Cleanup } from "../../core/afm";
import { element } from "../../core/dom";
import { addStyle, styleSheet } from "../../core/style";
import { themeOf } from "../../core/theme";
import css from "./file.css";

addStyle(css);

export interface Frame {
  root: HTMLElement;
  head: HTMLElement;
  body: HTMLElement;
}

export function frameOf(host: HTMLElement, cleanup: Cleanup): Frame {
  const head = element("div", { class: "gw-toolbar" });
  const body = element("div", { class: "gw-file-body" });
  const root = element("div", { class: "gw gw-file" }, element("style", {}, styleSheet()), head, body);
  host.append(root);
  const theme = themeOf(root, cleanup, () => void theme());
  const placed = new ResizeObserver(() => void theme()); // from the moment that it is in the page
  placed.observe(root);
  cleanup.add(() => {
    placed.disconnect();
    root.remove();
  });
  return { root, head, body };
}
