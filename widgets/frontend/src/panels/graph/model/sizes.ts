// Specs such as `f32[B, H - 1, 64]` as text: their dtype, and their sizes as they were written.

/** The sizes of a spec, each without spaces: `["B", "H-1", "64"]`; none of a scalar. A function keeps its commas: `max(0,H-2)`. */
export function sizesOf(spec: string): string[] {
  const open = spec.indexOf("[");
  const inner = open < 0 ? "" : spec.slice(open + 1, spec.lastIndexOf("]"));
  return inner.trim() ? partsOf(inner) : [];
}

/** What stands between the commas that are in no brackets, without spaces. */
export function partsOf(text: string): string[] {
  const parts: string[] = [""];
  let depth = 0;
  for (const letter of text) {
    if ("([{".includes(letter)) depth++;
    else if (")]}".includes(letter)) depth--;
    if (letter === "," && !depth) parts.push("");
    else if (letter !== " ") parts[parts.length - 1] += letter;
  }
  return parts;
}

/** `f32` of `f32[B, 64]`; the whole of what has no sizes. */
export function dtypeOf(spec: string): string {
  const open = spec.indexOf("[");
  return open < 0 ? spec : spec.slice(0, open);
}

/** `B×64` of `f32[B, 64]`; a scalar is left as its dtype, and a quotient in a sum needs no brackets: `(H-3)//2+1`. */
export function shortShape(spec: string): string {
  return sizesOf(spec).map(plain).join("×") || dtypeOf(spec);
}

const QUOTIENT = /(^|[+(-])\(((?:\([^()]*\)|[^()+])+\/\/\d+)\)(?=$|[+)-])/;

function plain(size: string): string {
  let text = size;
  while (QUOTIENT.test(text)) text = text.replace(QUOTIENT, "$1$2");
  return text;
}

/** Elements of a spec such as `f32[2*B, 8]`, every symbol counted as one: 16. */
export function elements(spec: string): number {
  return sizesOf(spec).reduce((product, size) => product * Number(/^(\d+)(?=\*|$)/.exec(size)?.[1] ?? 1), 1);
}
