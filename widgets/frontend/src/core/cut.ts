// Names that are too long for their place are cut inside: their end tells layers apart, and the number that counts them does.

import { element, textButton } from "./dom";

const END = 20; // letters kept at the end, of a name of twice as many
const COUNTED = /(?<=[._/-])\d/; // where a number is a part of a name by itself

/** A name in up to three pieces: how it begins, from the number that counts it on, and its end. */
function pieces(name: string): string[] {
  const letters = [...name];
  const end = Math.min(END, letters.length >> 1);
  const front = letters.slice(0, letters.length - end).join("");
  const at = (COUNTED.exec(front) ?? /\d/.exec(front))?.index || front.length;
  return [front.slice(0, at), front.slice(at), letters.slice(letters.length - end).join("")].filter(Boolean);
}

/** Writes a name into one line. Who listens needs a label on what it stands in: its pieces are heard as words. */
export function cutInto<T extends HTMLElement>(node: T, name: string): T {
  if (node.textContent === name) return node;
  node.classList.add("gw-cut");
  node.dir = "auto";
  // A piece of a few letters has no room for an ellipsis.
  node.replaceChildren(...(name.length > END ? pieces(name) : [name]).map((piece) => element("span", { class: piece.length > 4 ? "gw-cuts" : undefined }, piece)));
  return node;
}

/** A name to click on. */
export function nameLink(name: string, onClick: () => void, title: string): HTMLButtonElement {
  return cutInto(textButton("gw-link", "", onClick, { title, "aria-label": name }), name);
}

/** About so many letters of a text: of a name from all its pieces, of words the first. */
export function shortened(text: string, letters: number): string {
  if (text.includes(" ")) return `${[...text].slice(0, letters).join("")}…`;
  const [head, ...others] = pieces(text).map((piece) => [...piece]);
  const tail = others.pop() ?? [];
  const [counted = []] = others;
  const end = Math.min(tail.length, letters >> 1);
  const kept = counted.slice(0, (letters - end + 1) >> 1);
  const begin = head.slice(0, letters - end - kept.length);
  const isShort = end < tail.length;
  const gap = (lacks: boolean): string => (lacks ? "…" : "");
  return [
    ...begin, gap(begin.length < head.length || (isShort && !counted.length)),
    ...kept, gap(kept.length < counted.length || (isShort && counted.length > 0)), ...tail.slice(tail.length - end),
  ].join("");
}
