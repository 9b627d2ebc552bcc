// The side panel and what goes with it: it follows the active notebook, marks its cells, tells how far its trainings are,
// and goes from nodes to lines.

import { ILabShell, ILayoutRestorer, type JupyterFrontEnd, type JupyterFrontEndPlugin } from "@jupyterlab/application";
import { ICommandPalette, Notification } from "@jupyterlab/apputils";
import { CodeCell } from "@jupyterlab/cells";
import { INotebookTracker, type NotebookPanel } from "@jupyterlab/notebook";
import { ISettingRegistry } from "@jupyterlab/settingregistry";
import { IStatusBar } from "@jupyterlab/statusbar";
import { ITranslator, nullTranslator } from "@jupyterlab/translation";
import { element } from "../../core/dom";
import { SOURCE, type SourceOf } from "../../core/source";
import { markIcon } from "../icons";
import { Link } from "./link";
import { Marks } from "./marks";
import css from "./page.css";
import { Notices, StatusItem, Titles, type Wishes } from "./progress";
import { SidePanel } from "./side";
import { goTo } from "./source";
import type { Failure, Place } from "./told";
import { MIME } from "./views";

const PLUGIN = "gradwright:panel";
const RANK = 710; // of the right area: third parties stand between 501 and 899
const COMMANDS = {
  show: "gradwright:show-panel",
  explain: "gradwright:explain-error",
  pin: "gradwright:pin-view",
  pause: "gradwright:pause-training",
  stop: "gradwright:stop-training",
} as const;

export const panel: JupyterFrontEndPlugin<void> = {
  id: PLUGIN,
  description: "A panel of the active notebook's graphs, trainings, checks and runs; marks, progress, errors and lines of nodes.",
  autoStart: true,
  requires: [],
  optional: [INotebookTracker, ITranslator, ILabShell, ILayoutRestorer, ISettingRegistry, ICommandPalette, IStatusBar],
  activate,
};

function activate(
  app: JupyterFrontEnd, notebooks: INotebookTracker | null, translator: ITranslator | null, lab: ILabShell | null,
  restorer: ILayoutRestorer | null, settings: ISettingRegistry | null, palette: ICommandPalette | null, bar: IStatusBar | null,
): void {
  if (!notebooks) return;
  const trans = (translator ?? nullTranslator).load("gradwright");
  const words = trans.__.bind(trans);
  const { commands, shell } = app;
  const links = new Map<NotebookPanel, { link: Link; marks: Marks }>();
  let wishes: Wishes = { marks: true, titles: true, ended: true, trouble: true, seconds: 10 };

  const go = (notebook: NotebookPanel, place: Place): void => {
    void goTo(app, notebook, place).then((there) => {
      if (!there) Notification.info(`${words("This line is in no cell or file that is at hand:")} ${place.where}`, { autoClose: 5000 });
    });
  };
  const side = new SidePanel({ words, go, compare: (run) => void commands.execute("gradwright:open-runs", { run }) });
  shell.add(side, "right", { rank: RANK, type: "gradwright" });
  restorer?.add(side, side.id);
  const open = (): void => {
    if (lab) shell.activateById(side.id);
    else if (commands.hasCommand("application:toggle-panel")) void commands.execute("application:toggle-panel", { side: "right", title: side.title.label, id: side.id });
  };

  // -- what goes on, outside of the panel ------------------------------------------------------------

  const status = new StatusItem(words, open);
  bar?.registerStatusItem("gradwright:progress", { item: status, align: "left", rank: 40, isActive: () => status.active, activeStateChanged: status.changed });
  const titles = new Titles(() => notebooks.currentWidget, () => wishes);
  const notices = new Notices(words, () => wishes, open);
  void settings?.load(PLUGIN).then((loaded) => {
    const take = (): void => {
      wishes = loaded.composite as unknown as Wishes;
      for (const [notebook, { link, marks }] of links) {
        marks.show(wishes.marks);
        titles.update(notebook, link);
      }
    };
    loaded.changed.connect(take);
    take();
  }).catch((error: unknown) => console.warn("gradwright: settings are as they come,", error));

  // -- notebooks -----------------------------------------------------------------------------------

  const select = (link: Link, notebook: NotebookPanel, cell: string, graph: string): void => {
    side.follow(notebook);
    open();
    void (async () => {
      if (!side.shows("graph", graph)) await side.open("graph", graph);
      await link.ask("select", { cell, graph });
    })().catch((error: unknown) => Notification.warning(String(error instanceof Error ? error.message : error)));
  };

  function add(notebook: NotebookPanel): void {
    const link = new Link(notebook.sessionContext);
    const marks = new Marks(notebook, link, words, (cell, graph) => select(link, notebook, cell, graph));
    links.set(notebook, { link, marks });
    side.add(notebook, link);
    link.changed.connect((_, what) => {
      if (what === "trainings" || what === "steppers" || what === "gone") {
        titles.update(notebook, link);
        if (notebook === notebooks?.currentWidget) status.tell(link);
      }
      if (what === "trainings") notices.update(notebook.context.localPath, link.told.trainings);
    });
    notebook.disposed.connect(() => {
      links.delete(notebook);
      link.dispose();
    });
  }

  const follow = (): void => {
    const current = notebooks.currentWidget;
    const link = current ? links.get(current)?.link : undefined;
    side.follow(current);
    status.tell(link);
    titles.turn(link);
    commands.notifyCommandChanged(COMMANDS.explain);
  };
  // -- from nodes to lines: views anywhere in the page ask for it --------------------------------------

  document.documentElement.dataset.gradwrightLab = "";
  document.head.append(element("style", {}, css));
  document.addEventListener(SOURCE, (event) => {
    const { detail, target } = event as CustomEvent<SourceOf>;
    const shown = [...links.keys()].find((one) => one.node.contains(target as Node)) ?? notebooks.currentWidget;
    const link = shown ? links.get(shown)?.link : undefined;
    if (!shown || !link) return;
    event.preventDefault();
    link.ask<Place>("where", { ...detail }).then((place) => go(shown, place), (error: Error) => Notification.info(error.message, { autoClose: 5000 }));
  });

  // -- commands ------------------------------------------------------------------------------------

  const nothing = { describedBy: { args: { type: "object" as const, properties: {} } } };
  commands.addCommand(COMMANDS.show, { ...nothing, label: trans.__("Show Graphs and Trainings"), caption: trans.__("The panel of the active notebook"), icon: markIcon, execute: open });
  commands.addCommand(COMMANDS.explain, {
    ...nothing,
    label: trans.__("Explain This Error"),
    caption: trans.__("Show the graph around the last error of gradwright in this notebook, what it needs, and the line"),
    icon: markIcon,
    isEnabled: () => Boolean(side.link),
    execute: async () => {
      const { link } = side;
      open();
      if (!link) return;
      if (!link.failure && !link.gone) {
        const { facts } = await link.ask<{ facts: Failure | null }>("explain").catch(() => ({ facts: null }));
        link.fail(facts);
      }
      if (link.failure) side.showFailure();
      else Notification.info(trans.__("No error of a graph has come up in this notebook."), { autoClose: 5000 });
    },
  });
  commands.addCommand(COMMANDS.pin, {
    ...nothing,
    label: trans.__("Pin This View to the Side"),
    caption: trans.__("It stays while the notebook scrolls, and when its cell is run again"),
    icon: markIcon,
    isVisible: () => pointed(app, links.keys()) !== undefined,
    execute: () => {
      const found = pointed(app, links.keys());
      if (!found) return;
      open();
      void side.pin(found.notebook, found.model);
    },
  });
  const act = (kind: "pause" | "stop", label: string): void => {
    commands.addCommand(COMMANDS[kind], {
      ...nothing,
      label,
      isEnabled: () => side.link?.told.trainings.some((row) => row.status !== "idle") ?? false,
      execute: () => {
        const row = side.link?.told.trainings.find((one) => one.status !== "idle");
        const ask = kind === "pause" && row?.status === "paused" ? "resume" : kind;
        return row && side.link?.ask(ask, { key: row.key });
      },
    });
  };
  act("pause", trans.__("Pause or Resume Training"));
  act("stop", trans.__("Stop Training"));
  notebooks.forEach(add);
  notebooks.widgetAdded.connect((_, notebook) => {
    add(notebook);
    follow(); // it may be in front already
  });
  notebooks.currentChanged.connect(follow);
  follow();
  for (const command of [COMMANDS.show, COMMANDS.explain, COMMANDS.pause, COMMANDS.stop]) palette?.addItem({ command, category: trans.__("gradwright") });
}

/** The notebook and the widget whose output a menu was opened on. */
function pointed(app: JupyterFrontEnd, notebooks: Iterable<NotebookPanel>): { notebook: NotebookPanel; model: string } | undefined {
  const node = app.contextMenuHitTest((one) => one.classList.contains("jp-OutputArea-child"));
  for (const notebook of node ? notebooks : []) {
    for (const cell of notebook.content.widgets) {
      if (!(cell instanceof CodeCell) || !cell.node.contains(node!)) continue;
      const at = [...cell.outputArea.node.querySelectorAll(".jp-OutputArea-child")].indexOf(node!);
      const view = cell.outputArea.model.get(at)?.data[MIME] as { model_id?: string } | undefined;
      return view?.model_id ? { notebook, model: view.model_id } : undefined;
    }
  }
  return undefined;
}
