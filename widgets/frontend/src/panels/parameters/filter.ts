// Which names a filter shows: a part of the name, a pattern such as `*/w`, or `/regex/`; like `fits` in Python.

export type Fits = (name: string) => boolean;

/** Returns the test for a filter, or a sentence about what is wrong with it. */
export function filterOf(text: string): Fits | string {
  const wanted = text.trim();
  if (wanted.length > 1 && wanted.startsWith("/") && wanted.endsWith("/")) {
    try {
      const regex = new RegExp(wanted.slice(1, -1));
      return (name) => regex.test(name);
    } catch {
      return `${wanted} is no regular expression`;
    }
  }
  if (/[*?[]/.test(wanted)) {
    const regex = globRegex(wanted);
    return (name) => regex.test(name);
  }
  const lower = wanted.toLowerCase();
  return (name) => name.toLowerCase().includes(lower);
}

/** The shell pattern as Python's fnmatch reads it: `*`, `?`, `[abc]`, `[!abc]`; the whole name has to fit. */
function globRegex(pattern: string): RegExp {
  let out = "";
  for (let i = 0; i < pattern.length; i++) {
    const c = pattern[i];
    const end = c === "[" ? pattern.indexOf("]", i + (pattern[i + 1] === "!" ? 3 : 2)) : -1;
    if (c === "*") out += ".*";
    else if (c === "?") out += ".";
    else if (end > 0) {
      const inside = pattern.slice(i + 1, end).replace(/[\\\]^[]/g, "\\$&");
      out += `[${inside.startsWith("!") ? `^${inside.slice(1)}` : inside}]`;
      i = end;
    } else out += c.replace(/[\\^$.|?*+()[\]{}]/g, "\\$&");
  }
  try {
    return new RegExp(`^(?:${out})$`, "s");
  } catch {
    return /(?!)/; // a range such as [z-a], which fits nothing
  }
}
