// The extension of JupyterLab and Notebook: its plugins, each in a folder of its own. What is large, the drawing above all,
// is loaded when a document first shows it.

import { documents } from "./documents/plugin";
import { panel } from "./panel/plugin";
import { runs } from "./runs/plugin";
import { start } from "./start/plugin";

export default [documents, panel, runs, start];
