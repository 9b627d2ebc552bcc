// The drawing of a file's graph: the panel of the widgets, with what it leaves out said above it.

import { element } from "../../core/dom";
import { showPanel } from "../../core/shell";
import { graphPanel } from "../../panels/graph/panel";
import { DrawingModel } from "./drawing_model";
import type { About } from "./page";
import type { Drawn } from "./served";

/** `made` is given the model, for those who point at nodes. */
export async function fillDrawing(host: HTMLElement, about: About, end: AbortSignal, made: (model: DrawingModel) => void = () => undefined): Promise<() => void> {
  const drawn = await about.served.get<Drawn>("drawing", { path: about.path }, end);
  const model = new DrawingModel(about, drawn, end);
  if (drawn.notes.length) host.append(element("div", { class: "gw-message gw-notice" }, drawn.notes.join("\n")));
  made(model);
  return showPanel(graphPanel, host, model);
}
