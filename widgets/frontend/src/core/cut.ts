// Names in one line: what is too long for its place is cut in its middle, for its end tells layers apart.

import { element, textButton } from "./dom";

const SHORT = 16; // letters that have room wherever names stand
const END = 18; // letters kept at the end, of a name of twice as many

/** Writes a name into its place. Who listens needs a label: the two parts are heard as two words. */
export function cutInto<T extends HTMLElement>(node: T, name: string): T {
  if (node.textContent === name) return node;
  const letters = [...name];
  const end = letters.length > SHORT ? Math.min(END, letters.length >> 1) : 0;
  node.classList.add("gw-cut");
  node.dir = "auto";
  node.replaceChildren(...[letters.slice(0, letters.length - end), letters.slice(letters.length - end)].flatMap((part) => (part.length ? [element("span", {}, part.join(""))] : [])));
  return node;
}

/** A name to click on. */
export function nameLink(name: string, onClick: () => void, title: string): HTMLButtonElement {
  return cutInto(textButton("gw-link", "", onClick, { title, "aria-label": name }), name);
}
