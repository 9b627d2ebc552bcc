// The drawing of a file's graph: the panel of the widgets over what the server has read of the header.

import { element } from "../../core/dom";
import { SavedModel } from "../../core/saved";
import { showPanel } from "../../core/shell";
import { graphPanel } from "../../panels/graph/panel";
import type { About } from "./page";
import type { Drawn } from "./served";

export async function fillDrawing(host: HTMLElement, { served, path, words }: About, signal: AbortSignal): Promise<() => void> {
  const drawn = await served.get<Drawn>("drawing", { path }, signal);
  const model = new SavedModel(drawn, words("This is a file: open it in a notebook to change anything."));
  host.append(...drawn.notes.map((note) => element("div", { class: "gw-message gw-notice" }, note)));
  return showPanel(graphPanel, host, model);
}
