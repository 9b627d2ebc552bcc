// Colours come from the page: JupyterLab's variables where there are any, quiet defaults elsewhere (see style.css).

export interface Theme {
  dark: boolean;
  font: string;
  surface: string;
  raised: string;
  ink: string;
  quiet: string;
  line: string;
  wire: string;
  accent: string;
  series: string[];
  /** Colour of an op category. */
  category: (name: string) => string;
}

const SERIES = 6;

/** Relative luminance of a computed `rgb(...)` colour, 0 for black and 1 for white. */
function luminance(color: string): number {
  const parts = color.match(/[\d.]+/g)?.map(Number) ?? [255, 255, 255];
  const [r, g, b] = parts.map((part) => (part / 255) ** 2.2);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

/** Marks the root as light or dark, so that the style sheet can choose its palette, and reads the colours. */
export function readTheme(root: HTMLElement): Theme {
  const probe = document.createElement("span");
  root.append(probe);
  const resolve = (value: string): string => {
    probe.style.color = value;
    return getComputedStyle(probe).color;
  };
  const surface = resolve("var(--gw-surface)");
  const dark = luminance(surface) < 0.25;
  root.dataset.gwTheme = dark ? "dark" : "light";
  const theme: Theme = {
    dark,
    surface,
    font: getComputedStyle(root).fontFamily,
    raised: resolve("var(--gw-raised)"),
    ink: resolve("var(--gw-ink)"),
    quiet: resolve("var(--gw-quiet)"),
    line: resolve("var(--gw-line)"),
    wire: resolve("var(--gw-wire)"),
    accent: resolve("var(--gw-accent)"),
    series: Array.from({ length: SERIES }, (_, k) => resolve(`var(--gw-series-${k})`)),
    category: () => "",
  };
  const names = ["input", "parameter", "constant", "linear", "activation", "norm", "math", "reduce", "shape", "loss", "random", "control", "scope"];
  const colors = new Map(names.map((name) => [name, resolve(`var(--gw-c-${name})`)]));
  probe.remove();
  theme.category = (name) => colors.get(name) ?? colors.get("math")!;
  return theme;
}

/** Calls back when the page changes between light and dark; JupyterLab swaps its style sheet a moment after the attribute. */
export function watchTheme(onChange: () => void): () => void {
  const timers: ReturnType<typeof setTimeout>[] = [];
  const soon = (): void => {
    onChange();
    for (const delay of [100, 500]) timers.push(setTimeout(onChange, delay));
  };
  const observer = new MutationObserver(soon);
  observer.observe(document.body, { attributes: true, attributeFilter: ["class", "data-jp-theme-name", "data-jp-theme-light"] });
  observer.observe(document.documentElement, { attributes: true, attributeFilter: ["class", "data-theme", "style"] });
  const media = window.matchMedia("(prefers-color-scheme: dark)");
  media.addEventListener("change", soon);
  return () => {
    observer.disconnect();
    media.removeEventListener("change", soon);
    timers.forEach(clearTimeout);
  };
}
