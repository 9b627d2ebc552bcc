// How a scene is to look, and how much of it is in sight: what everything that paints is given.

import type { Marks } from "./marks";
import type { Shade } from "./palette";
import type { Focus } from "../model/trace";
import type { Path } from "./path";
import type { Theme } from "../../../core/theme";

/** How clear what is dimmed still is. */
export const DIM = 0.28;
/** From this scale on lines are curves, below it straight. */
export const CURVE_FROM = 0.12;
/** From this scale on there are texts and arrowheads. */
export const TEXT_FROM = 0.42;

export interface Look {
  theme: Theme;
  selected: number;
  hovered: number;
  /** Pieces of the lines into and out of the selected item. */
  lit: Set<number>;
  /** Variables that training leaves alone. */
  frozen: Set<number>;
  /** Whether nodes cannot be opened, for want of a kernel that sends what they enclose. */
  still?: boolean;
  /** All else is dimmed. */
  focus?: Focus;
  /** Colours of an overlay instead of those of the categories; what has no value stays plain. */
  shades?: Map<number, Shade>;
  marks?: Marks;
  /** The way that a gradient comes back from the loss. */
  path?: Path;
}

/** What is visible, in the plane's coordinates, and pixels per unit. */
export interface Window {
  x: number;
  y: number;
  width: number;
  height: number;
  scale: number;
}
