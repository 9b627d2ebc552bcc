// Icons of lines, 16 by 16, in the colour of the text around them.

const SVG = "http://www.w3.org/2000/svg";

export function icon(path: string): SVGSVGElement {
  const svg = document.createElementNS(SVG, "svg");
  for (const [key, value] of Object.entries({ viewBox: "0 0 16 16", class: "gw-icon", "aria-hidden": "true" })) {
    svg.setAttribute(key, value);
  }
  const line = document.createElementNS(SVG, "path");
  line.setAttribute("d", path);
  svg.append(line);
  return svg;
}

export const ICONS = {
  fit: "M2.5 6V2.5H6M10 2.5h3.5V6M13.5 10v3.5H10M6 13.5H2.5V10",
  plus: "M8 3v10M3 8h10",
  minus: "M3 8h10",
  open: "M3 6l5 4 5-4M3 2.5h10M3 13.5h10",
  close: "M3 10l5-4 5 4M3 2.5h10M3 13.5h10",
  outline: "M6 3.5h7.5M6 8h7.5M6 12.5h7.5M2.5 3.5h.5M2.5 8h.5M2.5 12.5h.5",
  save: "M8 2.5v7M5 7l3 3 3-3M3 13.5h10",
  play: "M5 3l8 5-8 5z",
  pause: "M5 3v10M11 3v10",
  stop: "M4 4h8v8H4z",
  next: "M4 3l6 5-6 5zM12.5 3v10",
  back: "M12 3L6 8l6 5zM3.5 3v10",
  rewind: "M8 3L3 8l5 5zM13.5 3l-5 5 5 5z",
  alert: "M8 2.5l6 11H2zM8 6.5v3.5M8 12h.01",
  into: "M8 2v7M5 6.5L8 9.5l3-3M3 13.5h10",
  out: "M8 9.5v-7M5 5.5l3-3 3 3M3 13.5h10",
  reset: "M3.5 8a4.5 4.5 0 1 0 1.4-3.3M3 2.5v3h3",
  target: "M8 2.5v2M8 11.5v2M2.5 8h2M11.5 8h2M8 5.5a2.5 2.5 0 1 0 0 5a2.5 2.5 0 1 0 0-5",
  gradient: "M2.5 3.5h11L8 13z",
  search: "M7 2.8a4.2 4.2 0 1 0 0 8.4a4.2 4.2 0 1 0 0-8.4M10.2 10.2l3.3 3.3",
  cross: "M4 4l8 8M12 4l-8 8",
  check: "M3 8.5l3.5 3.5L13 4.5",
  copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
  edit: "M10.5 3l2.5 2.5-7.5 7.5H3v-2.5z",
  chevron: "M6 3.5l4.5 4.5L6 12.5",
  more: "M3 8a.5.5 0 1 0 1 0a.5.5 0 1 0-1 0M7.5 8a.5.5 0 1 0 1 0a.5.5 0 1 0-1 0M12 8a.5.5 0 1 0 1 0a.5.5 0 1 0-1 0",
  map: "M2.5 3.5h11v9h-11zM8.5 7.5h3v3h-3z",
  path: "M3.5 2.5v4c0 3 9 0 9 3v4M1.5 4.5l2-2 2 2",
} as const;
