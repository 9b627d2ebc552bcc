// Colours come from the page: JupyterLab's variables where there are any, quiet defaults elsewhere (see style.css).

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
 * Marks the widget as light or dark, so that the style sheet can choose its palette, and reads the colours, without
 * transparency. Nothing can be read before the widget is in the page: hosts build it outside.
 */
function readTheme(node: HTMLElement): Theme | undefined {
  const root = node.closest<HTMLElement>(".gw");
  if (!root?.isConnected) return undefined;
  const probe = document.createElement("span");
  root.append(probe);
  const computed = (value: string): [...Rgb, number] => {
    probe.style.color = value;
    return parse(getComputedStyle(probe).color);
  };
  const paper = computed("var(--gw-surface)").slice(0, 3) as Rgb;
  const resolve = (value: string): string => {
    const [r, g, b, opacity] = computed(value);
    const over = [r, g, b].map((part, k) => Math.round(part * opacity + paper[k] * (1 - opacity)));
    return `rgb(${over.join(", ")})`;
  };
  const dark = luminance(paper) < 0.25;
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
  const names = ["input", "parameter", "constant", "linear", "activation", "norm", "math", "reduce", "shape", "loss", "random", "control", "scope", "gradient"];
  const colors = new Map(names.map((name) => [name, resolve(`var(--gw-c-${name})`)]));
  probe.remove();
  theme.category = (name) => colors.get(name) ?? colors.get("math")!;
  return theme;
}

/** Calls back when the page changes between light and dark; JupyterLab swaps its style sheet a moment after the attribute. */
function watchTheme(onChange: () => void): () => void {
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

/** The theme of a view: read when it is first asked for, and anew after the page has changed its colours. */
export function themeOf(node: HTMLElement, cleanup: Cleanup, onChange: () => void): () => Theme | undefined {
  let theme: Theme | undefined;
  cleanup.add(watchTheme(() => {
    theme = undefined;
    onChange();
  }));
  return () => (theme ??= readTheme(node));
}
