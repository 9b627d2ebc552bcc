// The drawing as a file: SVG, PDF, a picture of twice the size, or the language of Graphviz or of Mermaid.

import { dotOf, mermaidOf } from "./dot";
import type { GraphModel } from "./model/model";
import type { Look } from "./picture/look";
import type { Painter } from "./picture/paint";
import { PdfPen } from "./picture/pdf";
import { CanvasPen, SvgPen } from "./picture/pen";
import { element } from "../../core/dom";
import { download } from "../../core/files";

export const FORMATS = ["SVG", "PDF", "PNG", "DOT", "Mermaid"] as const;
export type Format = (typeof FORMATS)[number];

const MARGIN = 16;
/** Browsers refuse canvases with longer sides or more pixels; a larger drawing gets a coarser picture. */
const LONGEST = 16_000;
const MOST = 100e6;

export async function save(format: Format, model: GraphModel, painter: Painter, look: Look): Promise<void> {
  const name = `${model.spec.name.replace(/[^\w.-]+/g, "_") || "graph"}.${format === "Mermaid" ? "mmd" : format.toLowerCase()}`;
  if (format === "SVG") download(name, new Blob([svgOf(model, painter, look)], { type: "image/svg+xml" }));
  else if (format === "PDF") download(name, new Blob([pdfOf(painter, look)], { type: "application/pdf" }));
  else if (format === "Mermaid") download(name, new Blob([mermaidOf(model, painter.scene)], { type: "text/vnd.mermaid" }));
  else if (format === "DOT") download(name, new Blob([dotOf(model, painter.scene)], { type: "text/vnd.graphviz" }));
  else {
    const picture = await pngOf(painter, look);
    if (picture) download(name, picture);
  }
}

export function svgOf(model: GraphModel, painter: Painter, look: Look): string {
  const { width, height } = painter.scene;
  const [w, h] = [width + 2 * MARGIN, height + 2 * MARGIN];
  const pen = new SvgPen(look.theme.font);
  painter.paint(pen, { x: -MARGIN, y: -MARGIN, width: w, height: h, scale: 1 }, { ...look, hovered: -1 });
  return pen.finish(-MARGIN, -MARGIN, w, h, look.theme.surface, model.spec.name);
}

export function pdfOf(painter: Painter, look: Look): string {
  const { width, height } = painter.scene;
  const [w, h] = [width + 2 * MARGIN, height + 2 * MARGIN];
  const pen = new PdfPen();
  painter.paint(pen, { x: -MARGIN, y: -MARGIN, width: w, height: h, scale: 1 }, { ...look, hovered: -1 });
  return pen.finish(-MARGIN, -MARGIN, w, h, look.theme.surface);
}

function pngOf(painter: Painter, look: Look): Promise<Blob | null> {
  const width = painter.scene.width + 2 * MARGIN;
  const height = painter.scene.height + 2 * MARGIN;
  const scale = Math.min(2, LONGEST / width, LONGEST / height, Math.sqrt(MOST / (width * height)));
  const canvas = element("canvas", { width: Math.ceil(width * scale), height: Math.ceil(height * scale) });
  const context = canvas.getContext("2d")!;
  context.fillStyle = look.theme.surface;
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.setTransform(scale, 0, 0, scale, MARGIN * scale, MARGIN * scale);
  painter.paint(new CanvasPen(context, look.theme.font), { x: -MARGIN, y: -MARGIN, width, height, scale }, { ...look, hovered: -1 });
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}
