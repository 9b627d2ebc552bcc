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
