// Where one begins: cards of the launcher, and entries of menus, that make a notebook with a graph in it, or open the tour.

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from "@jupyterlab/application";
import { ICommandPalette } from "@jupyterlab/apputils";
import { IDefaultFileBrowser } from "@jupyterlab/filebrowser";
import { ILauncher } from "@jupyterlab/launcher";
import type { INotebookContent } from "@jupyterlab/nbformat";
import { ITranslator, nullTranslator } from "@jupyterlab/translation";
import { codeCell, markdownCell, writeNotebook } from "../documents/notebook";
import { markIcon } from "../icons";
import { part, tellStale } from "../lazy";

const NEW = "gradwright:new-notebook";
const TOUR = "gradwright:tour";

const FIRST = `import numpy as np

import gradwright as gw
from gradwright_widgets import Workbench

g = gw.Graph("first")
x = g.placeholder("x", (None, 4))
t = g.placeholder("t", (None,), dtype="int64")
with g.scope("hidden"):
    h = gw.nn.relu(x @ g.variable("w", (4, 16), init=gw.init.he_normal(seed=0)) + g.variable("b", (16,)))
logits = h @ g.variable("w", (16, 3), init=gw.init.xavier_uniform(seed=1))
loss = gw.loss.sparse_softmax_cross_entropy(t, logits, name="loss")`;

const SECOND = `rng = np.random.default_rng(0)
data = {"x": rng.normal(size=(256, 4)), "t": rng.integers(0, 3, 256)}
trainer = gw.Trainer(g, loss, optimizer=gw.optim.Adam(1e-2))
Workbench(g, trainer, data=data)`;

export const start: JupyterFrontEndPlugin<void> = {
  id: "gradwright:start",
  description: "Launcher cards and menu entries: a notebook with a graph, and the tour.",
  autoStart: true,
  optional: [ITranslator, ILauncher, ICommandPalette, IDefaultFileBrowser],
  activate(app: JupyterFrontEnd, translator: ITranslator | null, launcher: ILauncher | null, palette: ICommandPalette | null, browser: IDefaultFileBrowser | null) {
    const trans = (translator ?? nullTranslator).load("gradwright");
    const words = trans.__.bind(trans);
    const { commands, serviceManager } = app;
    const category = trans.__("gradwright");
    const add = (id: string, label: string, caption: string, name: string, cells: () => Promise<INotebookContent["cells"]>): void => {
      commands.addCommand(id, {
        label, caption, icon: markIcon,
        execute: async ({ cwd }) => {
          const folder = (cwd as string | undefined) ?? browser?.model.path ?? "";
          const written = await cells().catch((error: unknown) => tellStale(error, words));
          return written && commands.execute("docmanager:open", { path: await writeNotebook(serviceManager, folder, name, written), factory: "Notebook" });
        },
        describedBy: { args: { type: "object", properties: { cwd: { type: "string", description: "The folder of the notebook" } } } },
      });
      launcher?.add({ command: id, category, rank: id === NEW ? 1 : 2 });
      palette?.addItem({ command: id, category });
    };
    add(NEW, trans.__("Graph Notebook"), trans.__("A new notebook with a graph, a trainer and the workbench"), "graph", async () => [
      markdownCell(`# ${trans.__("A graph")}\n\n${trans.__("Run both cells; then draw, step, check and train below.")}`), codeCell(FIRST), codeCell(SECOND),
    ]);
    add(TOUR, trans.__("Tour of gradwright"), trans.__("A copy of the tour: declare, see, step, check and train a network"), "gradwright tour", async () => {
      const { default: tour } = await part(() => import("../../../../../notebooks/00_tour.ipynb"), words);
      return tour.cells;
    });
  },
};
