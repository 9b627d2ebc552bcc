// From a node to its line: the cell of the notebook that built it, or the file that the cell has called.

import type { JupyterFrontEnd } from "@jupyterlab/application";
import { PageConfig } from "@jupyterlab/coreutils";
import type { NotebookPanel } from "@jupyterlab/notebook";
import { servedPath } from "./paths";
import type { Place } from "./told";

const FLASH = 1600; // ms that a cell is lit

/** Goes to where a node was written; false where that is neither a cell that is there nor a file below the server's root. */
export async function goTo(app: JupyterFrontEnd, notebook: NotebookPanel, place: Place): Promise<boolean> {
  if (place.file) {
    const path = servedPath(place.file, PageConfig.getOption("serverRoot"));
    if (path !== undefined) {
      await app.commands.execute("docmanager:open", { path });
      if (app.commands.hasCommand("fileeditor:go-to-line")) await app.commands.execute("fileeditor:go-to-line", { line: place.line });
      return true;
    }
  }
  const { content } = notebook;
  const index = content.widgets.findIndex((cell) => cell.model.id === place.cell);
  if (index < 0) return false;
  app.shell.activateById(notebook.id);
  content.activeCellIndex = index;
  await content.scrollToItem(index, "smart");
  const cell = content.widgets[index];
  await cell.ready;
  if (!place.file && cell.editor) {
    const blank = /^(?:[ \t]*\n)*/.exec(cell.model.sharedModel.getSource())![0].split("\n").length - 1; // IPython drops them
    const line = Math.min(place.line + blank, cell.editor.lineCount) - 1;
    const text = cell.editor.getLine(line) ?? "";
    cell.editor.setSelection({ start: { line, column: text.length - text.trimStart().length }, end: { line, column: text.length } });
    cell.editor.focus();
  }
  cell.addClass("gw-lit");
  setTimeout(() => cell.isDisposed || cell.removeClass("gw-lit"), FLASH);
  return true;
}
