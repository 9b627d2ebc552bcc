// Runs as a document: the table of all runs in a folder, and the curves and settings of those that are chosen, live.

import { ILayoutRestorer, type JupyterFrontEnd, type JupyterFrontEndPlugin } from "@jupyterlab/application";
import { ICommandPalette, MainAreaWidget, Notification, WidgetTracker } from "@jupyterlab/apputils";
import { PageConfig, PathExt } from "@jupyterlab/coreutils";
import { IDefaultFileBrowser } from "@jupyterlab/filebrowser";
import { ILauncher } from "@jupyterlab/launcher";
import { ITranslator, nullTranslator } from "@jupyterlab/translation";
import { markIcon } from "../icons";
import { Lazy } from "../lazy";
import { servedPath } from "../panel/paths";
import { servedBy } from "../served";
import type { Served, Words } from "../viewer/served";

const OPEN = "gradwright:open-runs";

/** The panel of runs in a tab, loaded when the first one opens. */
class RunsView extends Lazy {
  constructor(private readonly served: Served, readonly folder: string, words: Words) {
    super(words);
  }

  protected override async fill(): Promise<(node: HTMLElement) => () => void> {
    const { mountRuns } = await import("./view");
    return (node) => mountRuns(node, this.served, this.folder);
  }
}

export const runs: JupyterFrontEndPlugin<void> = {
  id: "gradwright:runs",
  description: "Runs of a folder as a document: table, curves and settings side by side, live.",
  autoStart: true,
  optional: [ITranslator, ILauncher, ICommandPalette, IDefaultFileBrowser, ILayoutRestorer],
  activate(
    app: JupyterFrontEnd, translator: ITranslator | null, launcher: ILauncher | null, palette: ICommandPalette | null,
    browser: IDefaultFileBrowser | null, restorer: ILayoutRestorer | null,
  ) {
    const trans = (translator ?? nullTranslator).load("gradwright");
    const { commands, serviceManager, shell } = app;
    const served = servedBy(serviceManager.serverSettings);
    const tabs = new WidgetTracker<MainAreaWidget<RunsView>>({ namespace: "gradwright-runs-tables" });
    const open = (folder: string): void => {
      const known = tabs.find(({ content }) => content.folder === folder);
      const widget = known ?? new MainAreaWidget({ content: new RunsView(served, folder, trans.__.bind(trans)) });
      if (!known) {
        widget.id = `gradwright-runs-${folder}`;
        widget.title.label = folder ? trans.__("Runs in %1", PathExt.basename(folder)) : trans.__("Runs");
        widget.title.caption = folder || "/";
        widget.title.icon = markIcon;
        widget.title.closable = true;
        widget.toolbar.hide();
        shell.add(widget, "main");
        void tabs.add(widget);
      }
      shell.activateById(widget.id);
    };
    commands.addCommand(OPEN, {
      label: trans.__("Runs"),
      caption: trans.__("The recorded trainings in a folder, side by side"),
      icon: markIcon,
      execute: ({ folder, run, cwd }) => {
        if (typeof run === "string") {
          const path = servedPath(run, PageConfig.getOption("serverRoot"));
          if (path === undefined) {
            Notification.warning(`${trans.__("This run lies outside of what the server shows:")} ${run}`, { autoClose: 8000 });
            return;
          }
          open(PathExt.dirname(path));
        } else open(String(folder ?? cwd ?? browser?.model.path ?? ""));
      },
      describedBy: { args: { type: "object", properties: {
        folder: { type: "string", description: "The folder of runs, as the server calls it" },
        run: { type: "string", description: "The folder of a run, as the kernel calls it: the runs beside it are shown" },
        cwd: { type: "string", description: "The folder where there is no other" },
      } } },
    });
    const category = trans.__("gradwright");
    launcher?.add({ command: OPEN, category, rank: 3 });
    palette?.addItem({ command: OPEN, category });
    void restorer?.restore(tabs, { command: OPEN, args: ({ content: { folder } }) => ({ folder }), name: ({ content: { folder } }) => folder || "/" });
  },
};
