// Colours come from the page: JupyterLab's variables where there are any, quiet defaults elsewhere (see style.css). Where a
// page says whether it is dark, that counts, and not what the system prefers: marimo, Voila and documentation sites have
// switches of their own.

import type { Cleanup } from "./afm";
import { luminance, type Rgb } from "./colors";

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

/** Red, green, blue and opacity of a computed colour: `rgb(1, 2, 3)`, `rgba(...)` or `color(srgb 0.1 0.2 0.3 / 1)`. */
function parse(color: string): [...Rgb, number] {
  const [r = 255, g = 255, b = 255, opacity = 1] = (color.match(/[\d.]+(e-?\d+)?/g) ?? []).map(Number);
  const full = color.startsWith("color(") ? 255 : 1;
  return [r * full, g * full, b * full, opacity];
}

/**
 * Whether the page around is dark: JupyterLab and VS Code say so in an attribute of the body, others by the colour scheme
 * of their root, or by what they paint behind the widget. Undefined where all of it is left to the system.
 */
function pageIsDark(root: HTMLElement): boolean | undefined {
  const { body, documentElement } = root.ownerDocument;
  const { jpThemeLight, vscodeThemeKind } = body.dataset;
  if (jpThemeLight !== undefined) return jpThemeLight === "false";
  if (vscodeThemeKind !== undefined) return !vscodeThemeKind.includes("light");
  const schemes = getComputedStyle(documentElement).colorScheme.split(" ").filter((word) => word === "light" || word === "dark");
  if (schemes.length === 1) return schemes[0] === "dark";
  for (let outer: Node | null = root.parentNode; outer; outer = outer instanceof ShadowRoot ? outer.host : outer.parentNode) {
    if (!(outer instanceof HTMLElement)) continue;
    const [r, g, b, opacity] = parse(getComputedStyle(outer).backgroundColor);
    if (opacity > 0.5) return luminance([r, g, b]) < 0.25;
  }
  return schemes.length ? undefined : false; // a page that says nothing is white
}

const STARK = "(prefers-contrast: more)";

/** Whether the page or the system has chosen high contrast. */
function isStark({ ownerDocument: { body } }: HTMLElement): boolean {
  return matchMedia(STARK).matches || /high.contrast/i.test(`${body.dataset.jpThemeName} ${body.dataset.vscodeThemeKind}`);
}

/**
 * Marks the widget as light or dark, so that the style sheet can choose its palette, and reads the colours, without
 * transparency. Nothing can be read before the widget is in the page: hosts build it outside.
 */
function readTheme(node: HTMLElement): Theme | undefined {
  const root = node.closest<HTMLElement>(".gw");
  if (!root?.isConnected) return undefined;
  const isDark = pageIsDark(root);
  if (isDark === undefined) delete root.dataset.gwPage;
  else root.dataset.gwPage = isDark ? "dark" : "light";
  const probe = document.createElement("span");
  root.append(probe);
  const computed = (value: string): [...Rgb, number] => {
    probe.style.color = value;
    return parse(getComputedStyle(probe).color);
  };
  const surface = (): Rgb => computed("var(--gw-surface)").slice(0, 3) as Rgb;
  const looksDark = (paper: Rgb): boolean => luminance(paper) < 0.25;
  root.toggleAttribute("data-gw-contrast", isStark(root));
  delete root.dataset.gwOwn;
  let paper = surface();
  if (isDark !== undefined && isDark !== looksDark(paper)) { // ipywidgets brings JupyterLab's variables, light ones, to every page
    root.dataset.gwOwn = "";
    paper = surface();
  }
  const resolve = (value: string): string => {
    const [r, g, b, opacity] = computed(value);
    const over = [r, g, b].map((part, k) => Math.round(part * opacity + paper[k] * (1 - opacity)));
    return `rgb(${over.join(", ")})`;
  };
  const dark = looksDark(paper);
  root.dataset.gwTheme = dark ? "dark" : "light";
  const theme: Theme = {
    dark,
    surface: resolve("var(--gw-surface)"),
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
  const names = ["input", "parameter", "constant", "linear", "activation", "norm", "math", "reduce", "shape", "loss", "random", "control", "scope", "gradient", "adapter"];
  const colors = new Map(names.map((name) => [name, resolve(`var(--gw-c-${name})`)]));
  probe.remove();
  theme.category = (name) => colors.get(name) ?? colors.get("math")!;
  return theme;
}

/** Calls back when the page changes between light and dark, or its contrast; JupyterLab swaps its style sheet a moment after the attribute. */
function watchTheme(onChange: () => void): () => void {
  const timers: ReturnType<typeof setTimeout>[] = [];
  const soon = (): void => {
    onChange();
    for (const delay of [100, 500]) timers.push(setTimeout(onChange, delay));
  };
  const observer = new MutationObserver(soon);
  observer.observe(document.body, { attributes: true, attributeFilter: ["class", "style", "data-jp-theme-name", "data-jp-theme-light", "data-vscode-theme-kind"] });
  observer.observe(document.documentElement, { attributes: true, attributeFilter: ["class", "style", "data-theme", "data-bs-theme"] });
  const media = ["(prefers-color-scheme: dark)", STARK].map((query) => window.matchMedia(query));
  for (const query of media) query.addEventListener("change", soon);
  return () => {
    observer.disconnect();
    for (const query of media) query.removeEventListener("change", soon);
    timers.forEach(clearTimeout);
  };
}

/** The theme of a view: read when it is first asked for, and anew after the page has changed its colours. */
export function themeOf(node: HTMLElement, cleanup: Cleanup, onChange: () => void): () => Theme | undefined {
  let theme: Theme | undefined;
  cleanup.add(watchTheme(() => {
    theme = undefined;
    onChange();
  }));
  return () => (theme ??= readTheme(node));
}
