// Files as the kernel calls them, and as the server does.

/** A file of the kernel's machine as a path of the server, whose root may begin with `~`; undefined where it does not show it. */
export function servedPath(file: string, root: string): string | undefined {
  const slashed = (text: string): string => text.replaceAll("\\", "/");
  const base = slashed(root).replace(/\/+$/, "");
  const path = slashed(file);
  if (base.startsWith("~")) {
    const rest = base.slice(1);
    const home = /^(\/home\/[^/]+|\/root|\/Users\/[^/]+|[A-Z]:\/Users\/[^/]+)(?=\/)/.exec(path)?.[0];
    return home && path.startsWith(`${home}${rest}/`) ? path.slice(home.length + rest.length + 1) : undefined;
  }
  return base && path.startsWith(`${base}/`) ? path.slice(base.length + 1) : undefined;
}
