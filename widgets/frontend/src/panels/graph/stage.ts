// Pointer, wheel and keys on the drawing, turned into what they mean; and the small label beside the pointer.

import { tipPlace, type Rect } from "./picture/tip";
import type { Viewport } from "./picture/viewport";
import type { Way } from "./model/walk";
import type { Cleanup } from "../../core/afm";
import { element, type Surface } from "../../core/dom";
import { grasp } from "../../core/grasp";

const TIP_DELAY = 350; // ms over an item before its facts appear
const STEP = 60; // px per arrow key

export interface StageEvents {
  /** The window has moved. */
  moved(): void;
  hover(x: number, y: number): void;
  leave(): void;
  click(x: number, y: number, shift: boolean): void;
  double(x: number, y: number): void;
  fit(): void;
  /** Opens or closes what is selected. */
  toggle(): void;
  escape(): void;
  /** Opens or closes the inspector. */
  inspect(): void;
  walk(way: Way): void;
}

const WAYS: Record<string, Way> = {
  "[": "in", "]": "out", "alt+ArrowUp": "in", "alt+ArrowDown": "out", "alt+ArrowLeft": "before", "alt+ArrowRight": "after", g: "pair",
};

export class Stage {
  readonly root = element("div", {
    class: "gw-stage", tabindex: 0, role: "img",
    "aria-keyshortcuts": "ArrowUp ArrowDown ArrowLeft ArrowRight Plus Minus 0 / [ ] G I Alt+ArrowUp Alt+ArrowDown Alt+ArrowLeft Alt+ArrowRight Enter Escape",
  });
  readonly tip = element("div", { class: "gw-tip", hidden: true });
  private tipFor: number | undefined;
  private tipTimer: ReturnType<typeof setTimeout> | 0 = 0;

  constructor(private readonly view: Viewport, private readonly events: StageEvents) {
    this.root.append(this.tip);
  }

  bind(cleanup: Cleanup, surface: Surface): void {
    const { root, view, events } = this;
    const moved = (): void => {
      this.hideTip();
      events.moved();
    };
    grasp(root, cleanup, {
      what: "drawing",
      own: ({ target }) => !(target as HTMLElement).closest(".gw-search"), // its list scrolls
      focused: () => root.closest("section")!.contains((root.getRootNode() as Document).activeElement),
      hover: (x, y) => events.hover(x, y),
      leave: () => {
        this.hideTip();
        events.leave();
      },
      click: (x, y, event) => events.click(x, y, event.shiftKey),
      double: (x, y) => events.double(x, y),
      pan: (dx, dy) => {
        view.pan(dx, dy);
        moved();
      },
      zoom: (factor, x, y) => {
        view.zoom(factor, x, y);
        moved();
      },
    });
    cleanup.dom(root, "keydown", (event) => event.target === root && this.onKey(event, surface));
    cleanup.add(() => this.hideTip());
  }

  private onKey(event: KeyboardEvent, { width, height }: Surface): void {
    if (event.ctrlKey || event.metaKey) return;
    const { view } = this;
    const way = WAYS[`${event.altKey ? "alt+" : ""}${event.key}`];
    if (way) this.events.walk(way);
    else if (event.altKey) return;
    else
      switch (event.key) {
        case "ArrowLeft": view.pan(STEP, 0); break;
        case "ArrowRight": view.pan(-STEP, 0); break;
        case "ArrowUp": view.pan(0, STEP); break;
        case "ArrowDown": view.pan(0, -STEP); break;
        case "+":
        case "=": view.zoom(1.3, width / 2, height / 2); break;
        case "-": view.zoom(1 / 1.3, width / 2, height / 2); break;
        case "0": this.events.fit(); break;
        case "Enter": this.events.toggle(); break;
        case "Escape": this.events.escape(); break;
        case "i": this.events.inspect(); break;
        default: return;
      }
    event.preventDefault();
    event.stopPropagation();
    this.events.moved();
  }

  /** Shows a text beside a thing, clear of others, once the pointer has rested on it; undefined for nothing there. */
  describe(thing: number | undefined, text: () => string, around: () => { thing: Rect; others: Rect[] }): void {
    if (thing !== this.tipFor) this.hideTip();
    this.tipFor = thing;
    if (thing === undefined || !this.tip.hidden) return;
    this.tipTimer ||= setTimeout(() => {
      const { clientWidth, clientHeight } = this.root;
      this.tipTimer = 0;
      this.tip.hidden = false;
      this.tip.textContent = text();
      const { thing, others } = around();
      const [left, top] = tipPlace([this.tip.offsetWidth, this.tip.offsetHeight], [clientWidth, clientHeight], thing, others);
      Object.assign(this.tip.style, { left: `${left}px`, top: `${top}px` });
    }, TIP_DELAY);
  }

  /** The middle of a rectangle of the plane in the coordinates of the page. */
  onPage(rect: [number, number, number, number] | undefined): { x: number; y: number } | undefined {
    if (!rect) return undefined;
    const box = this.root.getBoundingClientRect();
    const [x, y, w, h] = rect;
    return { x: box.left + (x + w / 2 - this.view.x) * this.view.scale, y: box.top + (y + h / 2 - this.view.y) * this.view.scale };
  }

  hideTip(): void {
    clearTimeout(this.tipTimer);
    this.tipTimer = 0;
    this.tip.hidden = true;
    this.tipFor = undefined;
  }
}
