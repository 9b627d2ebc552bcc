// Names and addresses as text: `hidden/matmul` is in a scope, `scan::cell/add` inside of a node, in a scope there.

/** A scope's own name, or a node's: the part after the last slash, and after all that it is inside of. */
export function leaf(name: string): string {
  return name.slice(Math.max(name.lastIndexOf("/"), name.lastIndexOf(":")) + 1) || name;
}

/** An address in whichever turns of loops, as a drawing shows it: `scan::add` for `scan:3:add`. */
export function anywhere(address: string): string {
  return address.replace(/:\d+:/g, "::");
}

/** The path of the scope that a name is in. */
export function pathOf(name: string): string {
  return name.slice(0, Math.max(0, name.lastIndexOf("/")));
}

/** All that has to be open for an address to be seen: `["hidden", "hidden/norm::"]` for `hidden/norm::mean`. */
export function enclosing(address: string): string[] {
  const paths: string[] = [];
  for (let at = 0; at < address.length; at++) {
    if (address[at] === "/") paths.push(address.slice(0, at));
    if (address[at] !== ":") continue;
    const end = address.indexOf(":", at + 1);
    paths.push(`${address.slice(0, at)}::`);
    if (end > at + 1) paths.push(address.slice(0, end + 1)); // a branch
    at = end;
  }
  return paths;
}

/** The scopes that hold one scope and nothing else, each with the first in it that does not; `paths` are of those that hold nodes. */
export function chainsOf(paths: Iterable<string>): Map<string, string> {
  const holding = new Set(paths);
  const inner = new Map<string, string>(); // the only one, "" of several
  const seen = new Set([""]);
  for (const path of holding) {
    for (let at = path; !seen.has(at); at = pathOf(at)) {
      seen.add(at);
      const around = pathOf(at);
      if (around && !holding.has(around)) inner.set(around, inner.has(around) ? "" : at);
    }
  }
  const chains = new Map<string, string>();
  for (const path of [...inner.keys()].sort((a, b) => b.length - a.length)) {
    const only = inner.get(path)!;
    if (only) chains.set(path, chains.get(only) ?? only);
  }
  return chains;
}

/** Paths and labels of the frames around what is in a scope, without those of chains: `a / b / c`, of a longer one its ends. */
export function framesOf(path: string, from: number, chains: ReadonlyMap<string, string>): [path: string, label: string][] {
  const frames: [string, string][] = [];
  let start = from;
  for (let end = path.indexOf("/", from || 1); ; end = path.indexOf("/", end + 1)) {
    const prefix = end < 0 ? path : path.slice(0, end);
    if (end >= 0 && chains.has(prefix)) continue;
    const parts = prefix.slice(start).split("/");
    frames.push([prefix, (parts.length > 3 ? [parts[0], "…", parts[parts.length - 1]] : parts).join(" / ") || "/"]);
    if (end < 0) return frames;
    start = end + 1;
  }
}
