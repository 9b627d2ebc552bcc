// Elements as small squares: of an array in the colour of the program that touches them, of a tile by what its lanes do, of a value
// by its size.

import { element } from "../../core/dom";
import { compact, shapeText } from "../../core/format";
import { cssOf, mixed, rgb } from "../../core/colors";
import type { Theme } from "../../core/theme";
import type { Access, KernelStore, Operand } from "./store";

const MOST_SIDE = 1024; // of squares in a row, beyond which they are not drawn
const TALL = 132; // pixels that many rows share
const NOBODY = -1;
const SEVERAL = -2;

/** How elements of a shape lie in rows and columns; one row is broken like a text. */
export function lay(shape: readonly number[], shown: number): { rows: number; columns: number } {
  const last = shape.at(-1) ?? 1;
  const columns = shape.length < 2 ? Math.min(last, 64) : Math.min(last, MOST_SIDE);
  return { rows: Math.ceil(shown / Math.max(1, columns)), columns };
}

/** A canvas of squares of a colour each, as large as fits. */
export function grid(canvas: HTMLCanvasElement, rows: number, columns: number, width: number, color: (row: number, column: number) => string | undefined, line: string): number {
  const side = Math.max(2, Math.min(14, Math.floor(width / Math.max(1, columns)), Math.floor(TALL / Math.max(1, rows)) || 2));
  const most = Math.min(rows, Math.floor(4096 / side));
  const ratio = window.devicePixelRatio || 1;
  canvas.width = columns * side * ratio;
  canvas.height = most * side * ratio;
  canvas.style.width = `${columns * side}px`;
  canvas.style.height = `${most * side}px`;
  const pen = canvas.getContext("2d")!;
  pen.scale(ratio, ratio);
  const gap = side > 4 ? 1 : 0;
  for (let row = 0; row < most; row++) {
    for (let column = 0; column < columns; column++) {
      const fill = color(row, column);
      pen.fillStyle = fill ?? line;
      pen.fillRect(column * side, row * side, side - gap, side - gap);
    }
  }
  return side;
}

/** The colour of a program: that of its number, as those of curves. */
export function programColor(theme: Theme, program: number): string {
  return theme.series[program % theme.series.length];
}

export interface Grid {
  root: HTMLElement;
  draw(store: KernelStore, theme: Theme, now: Access | undefined, chosen: number): void;
}

/** An operand: who touches what; what the chosen program touches is full, what the line does is darkest. */
export function operandGrid(operand: Operand, number: number, ask: (element: number) => void): Grid {
  const canvas = element("canvas", { role: "img", class: "gw-kernels-canvas", tabindex: 0, "aria-keyshortcuts": "ArrowLeft ArrowRight ArrowUp ArrowDown" });
  const { rows, columns } = lay(operand.shape, operand.shown);
  const arrows: Record<string, number> = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns };
  let side = 1;
  let cursor = -1;
  const choose = (at: number): void => {
    if (at < 0 || at >= operand.shown) return;
    cursor = at;
    ask(at);
  };
  canvas.addEventListener("click", ({ offsetX, offsetY }) => choose(Math.floor(offsetY / side) * columns + Math.floor(offsetX / side)));
  canvas.addEventListener("keydown", (event) => {
    if (!(event.key in arrows)) return;
    event.preventDefault();
    event.stopPropagation(); // JupyterLab would go to another cell
    choose(cursor < 0 ? 0 : cursor + arrows[event.key]);
  });
  const text = operand.shown < operand.size ? ` · the first ${operand.shown}` : "";
  const root = element(
    "figure",
    { class: "gw-kernels-operand", "data-parameter": operand.parameter },
    element("figcaption", {}, element("span", { class: "gw-code" }, operand.parameter), element("span", { class: "gw-kernels-name", title: operand.name }, operand.name), element("span", { class: "gw-code gw-kernels-quiet" }, `${operand.dtype} ${shapeText(operand.shape)}${text}`)),
    element("div", { class: "gw-kernels-sheet" }, canvas),
  );
  return {
    root,
    draw(store, theme, now, chosen) {
      const paper = rgb(theme.surface);
      const pale = new Map<number, string>();
      const [readers, writers, mine] = [store.readers[number], store.writers[number], store.ofProgram(number)];
      const active = new Uint8Array(operand.shown);
      if (now?.argument === number) for (const at of store.elements(now)) if (at < active.length) active[at] = 1;
      const program = store.program?.program ?? 0;
      const race = store.launch!.findings.some(({ parameter, text }) => parameter === operand.parameter && text.includes("another program"));
      const fault = theme.category("loss");
      const tint = (owner: number): string => {
        if (!pale.has(owner)) pale.set(owner, cssOf(mixed(paper, rgb(owner === SEVERAL ? theme.quiet : programColor(theme, owner)), owner === SEVERAL ? 0.35 : 0.3)));
        return pale.get(owner)!;
      };
      const own = programColor(theme, program);
      const users = store.users?.argument === number ? store.users.element : -1;
      side = grid(canvas, rows, columns, root.clientWidth - 2, (row, column) => {
        const at = row * columns + column;
        if (at >= operand.shown) return theme.surface;
        if (at === users) return theme.accent;
        if (race && writers[at] === SEVERAL) return fault;
        if (active[at]) return theme.ink;
        if (mine?.[at]) return own;
        const owner = writers[at] === NOBODY ? readers[at] : writers[at];
        return owner === NOBODY ? undefined : tint(owner);
      }, cssOf(mixed(paper, rgb(theme.ink), 0.06)));
      const count = mine?.reduce((sum, one) => sum + one, 0) ?? 0;
      canvas.setAttribute("aria-label", `${operand.parameter}: program ${chosen} touches ${count} of ${operand.shown} elements`);
    },
  };
}

/** The tile of an access: which lanes touch memory, which are masked off, which go outside. */
export function drawTile(canvas: HTMLCanvasElement, store: KernelStore, access: Access, theme: Theme, width: number): void {
  const lanes = store.lanes(access);
  const { rows, columns } = lay(access.shape, lanes.length);
  const masked = cssOf(mixed(rgb(theme.surface), rgb(theme.ink), 0.16));
  const colors = [masked, theme.ink, theme.category("loss")];
  grid(canvas, rows, columns, width, (row, column) => {
    const at = row * columns + column;
    return at < lanes.length ? colors[lanes[at]] : theme.surface;
  }, masked);
  const count = lanes.reduce((sum, lane) => sum + Number(lane === 1), 0);
  canvas.setAttribute("aria-label", `${count} of ${lanes.length} lanes touch memory`);
}

/** The numbers of a variable from pale to full; what is not finite in the colour of faults. */
export function drawValue(canvas: HTMLCanvasElement, store: KernelStore, theme: Theme, width: number): string {
  const { rows, columns } = store.value!;
  const { numbers } = store;
  const finite = numbers.filter(Number.isFinite);
  const [low, high] = finite.length ? [finite.reduce((a, b) => Math.min(a, b)), finite.reduce((a, b) => Math.max(a, b))] : [0, 0];
  const paper = rgb(theme.surface);
  const full = rgb(theme.accent);
  grid(canvas, rows, columns, width, (row, column) => {
    const number = numbers[row * columns + column];
    if (!Number.isFinite(number)) return theme.category("loss");
    return cssOf(mixed(paper, full, high > low ? 0.08 + (0.92 * (number - low)) / (high - low) : 0.5));
  }, theme.line);
  canvas.setAttribute("aria-label", `${store.value!.name}: ${compact(low)} to ${compact(high)}`);
  return low === high ? compact(low) : `${compact(low)} … ${compact(high)}`;
}
