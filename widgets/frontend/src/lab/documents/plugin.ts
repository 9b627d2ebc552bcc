// Models open by double click: file types, the factory of documents, what can be done with one, and their coming back with
// the layout.

import { ILabShell, ILayoutRestorer, type JupyterFrontEnd, type JupyterFrontEndPlugin } from "@jupyterlab/application";
import { Dialog, ICommandPalette, MainAreaWidget, showDialog, showErrorMessage, WidgetTracker } from "@jupyterlab/apputils";
import { PathExt } from "@jupyterlab/coreutils";
import { IDocumentManager } from "@jupyterlab/docmanager";
import { FileDialog, IFileBrowserFactory } from "@jupyterlab/filebrowser";
import { INotebookTracker, NotebookActions } from "@jupyterlab/notebook";
import { ISettingRegistry } from "@jupyterlab/settingregistry";
import { ITranslator, nullTranslator } from "@jupyterlab/translation";
import type { Widget } from "@lumino/widgets";
import { markIcon } from "../icons";
import { servedBy } from "../served";
import type { Formats, Inspected } from "../viewer/served";
import type { Habits } from "../viewer/viewer";
import { from, readingCode } from "./code";
import { ComparisonView, FileView, type Given } from "./content";
import { FACTORY, ModelFactory, type ModelDocument } from "./factory";
import { codeCell, writeNotebook } from "./notebook";
import { REFERENCE, ReferenceFactory } from "./reference";
import { addServedTypes, knownTypes } from "./types";

export const COMMANDS = {
  open: "gradwright:open-model",
  folder: "gradwright:open-run",
  compare: "gradwright:compare-models",
  notebook: "gradwright:open-in-notebook",
  insert: "gradwright:insert-cell",
  reload: "gradwright:reload-model",
} as const;

const PLUGIN = "gradwright:documents";

export const documents: JupyterFrontEndPlugin<void> = {
  id: PLUGIN,
  description: "Opens models (.gw, checkpoints, ONNX, safetensors, runs) as documents, without a kernel.",
  autoStart: true,
  optional: [ITranslator, ILabShell, ILayoutRestorer, ISettingRegistry, ICommandPalette, IDocumentManager, IFileBrowserFactory, INotebookTracker],
  activate,
};

function activate(
  app: JupyterFrontEnd, translator: ITranslator | null, labShell: ILabShell | null, restorer: ILayoutRestorer | null,
  settings: ISettingRegistry | null, palette: ICommandPalette | null, manager: IDocumentManager | null, browsers: IFileBrowserFactory | null, notebooks: INotebookTracker | null,
): void {
  const trans = (translator ?? nullTranslator).load("gradwright");
  const words = trans.__.bind(trans);
  const { commands, docRegistry, serviceManager, shell } = app;
  const served = servedBy(serviceManager.serverSettings);
  const files = new WidgetTracker<ModelDocument>({ namespace: "gradwright-documents" });
  const folders = new WidgetTracker<MainAreaWidget<FileView>>({ namespace: "gradwright-runs" });
  const comparisons = new WidgetTracker<MainAreaWidget<ComparisonView>>({ namespace: "gradwright-comparisons" });

  let habits: Habits = { watch: true, first: "drawing" };
  void settings?.load(PLUGIN).then((loaded) => {
    const take = (): void => void (habits = loaded.composite as unknown as Habits);
    loaded.changed.connect(take);
    take();
  }).catch((error: unknown) => console.warn("gradwright: settings are as they come,", error));

  // -- documents -----------------------------------------------------------------------------------

  const given = (path: string): Given => ({
    about: { served, path, words },
    deeds: () => [
      { name: "compare", label: trans.__("Compare with…"), run: (told) => void commands.execute(COMMANDS.compare, { a: told.path }) },
      { name: "notebook", label: trans.__("Open in a notebook"), run: (told) => attempt(openInNotebook(told.path, told.format)) },
      ...(notebooks?.currentWidget ? [{ name: "insert", label: trans.__("Insert a cell"), run: (told: Inspected) => attempt(insertCell(told.path, told.format)) }] : []),
    ],
    habits: () => habits,
  });
  const types = knownTypes(words).map((type) => {
    docRegistry.addFileType(type);
    return type.name;
  });
  docRegistry.addModelFactory(new ReferenceFactory());
  const factory = new ModelFactory({
    name: FACTORY, label: trans.__("Model"), modelName: REFERENCE, fileTypes: types, defaultFor: types, readOnly: true,
    translator: translator ?? undefined,
  }, given);
  docRegistry.addWidgetFactory(factory);
  factory.widgetCreated.connect((_, document) => {
    void files.add(document);
    document.context.pathChanged.connect(() => void files.save(document));
  });
  void restorer?.restore(files, {
    command: "docmanager:open",
    args: ({ context }) => ({ path: context.path, factory: FACTORY }),
    name: ({ context }) => context.path,
  });
  // The server imports its readers when it is first asked: not before the page is there.
  void app.restored.then(() => addServedTypes(docRegistry, served, FACTORY)).catch(() => undefined);

  // -- tabs that are no file: a run's folder, two files ---------------------------------------------

  /** In Notebook, where each document is a page of its own, what is no file opens in a dialog. */
  function tab<W extends Widget>(content: W, id: string, label: string): MainAreaWidget<W> {
    const widget = new MainAreaWidget({ content });
    widget.id = id;
    widget.title.label = label;
    widget.title.icon = markIcon;
    widget.title.closable = true;
    widget.toolbar.hide();
    if (labShell) labShell.add(widget, "main");
    else {
      Object.assign(widget.node.style, { width: "80vw", height: "70vh" });
      void showDialog({ title: label, body: widget, buttons: [Dialog.okButton({ label: trans.__("Close") })] });
    }
    return widget;
  }

  function openFolder(path: string): MainAreaWidget<FileView> {
    const known = folders.find(({ content }) => content.path === path);
    const widget = known ?? tab(new FileView(given(path)), `gradwright-run-${path}`, PathExt.basename(path) || "/");
    widget.title.caption = path;
    if (!known) void folders.add(widget);
    labShell?.activateById(widget.id);
    return widget;
  }

  function openComparison(a: string, b: string): MainAreaWidget<ComparisonView> {
    const known = comparisons.find(({ content }) => content.a === a && content.b === b);
    const widget = known ?? tab(new ComparisonView({ served, words }, a, b), `gradwright-comparison-${a}-${b}`, `${PathExt.basename(a)} ⇄ ${PathExt.basename(b)}`);
    widget.title.caption = `${a} ⇄ ${b}`;
    if (!known) void comparisons.add(widget);
    labShell?.activateById(widget.id);
    return widget;
  }

  void restorer?.restore(folders, { command: COMMANDS.folder, args: ({ content }) => ({ path: content.path }), name: ({ content }) => content.path });
  void restorer?.restore(comparisons, {
    command: COMMANDS.compare, args: ({ content: { a, b } }) => ({ a, b }), name: ({ content: { a, b } }) => `${a} ${b}`,
  });

  // -- what can be done ----------------------------------------------------------------------------

  const local = (path: string): string => serviceManager.contents.localPath(path);
  const picked = (folder: boolean): string[] =>
    [...(browsers?.tracker.currentWidget?.selectedItems() ?? [])].filter(({ type }) => (type === "directory") === folder).map(({ path }) => path);
  const current = (): FileView | undefined =>
    [files.currentWidget, folders.currentWidget].find((widget) => widget && widget === shell.currentWidget)?.content;

  async function ask(a: string): Promise<string | undefined> {
    if (!manager) return undefined;
    const label = trans.__("Compare %1 with", PathExt.basename(a));
    const { button, value } = await FileDialog.getOpenFiles({ manager, title: label, defaultPath: PathExt.dirname(a), translator: translator ?? undefined });
    const [found] = button.accept ? (value ?? []) : [];
    return found && found.type !== "directory" ? local(found.path) : undefined;
  }

  function attempt(work: Promise<void>): void {
    work.catch((error: Error) => showErrorMessage(trans.__("No notebook was written"), error));
  }

  async function openInNotebook(path: string, format: string): Promise<void> {
    const { formats } = await served.get<Formats>("formats", {});
    const known = formats.find(({ name }) => name === format);
    const folder = PathExt.dirname(path);
    const cells = [codeCell(readingCode(from(folder, path), known))];
    const name = PathExt.basename(path).replace(/\.[^.]*$/, "") || "model";
    await commands.execute("docmanager:open", { path: await writeNotebook(serviceManager, folder, name, cells), factory: "Notebook" });
  }

  /** Puts the cell below the active one of the notebook that was last looked at. */
  async function insertCell(path: string, format: string): Promise<void> {
    const panel = notebooks?.currentWidget;
    if (!panel) return openInNotebook(path, format);
    const { formats } = await served.get<Formats>("formats", {});
    const code = readingCode(from(PathExt.dirname(local(panel.context.path)), path), formats.find(({ name }) => name === format));
    NotebookActions.insertBelow(panel.content);
    panel.content.activeCell?.model.sharedModel.setSource(code);
    shell.activateById(panel.id);
  }

  commands.addCommand(COMMANDS.open, {
    label: trans.__("Open with gradwright"),
    caption: trans.__("Show what a file of a model holds, whatever it is called"),
    icon: markIcon,
    isVisible: () => picked(false).length > 0,
    execute: ({ path }) => Promise.all((path ? [String(path)] : picked(false)).map((one) => commands.execute("docmanager:open", { path: one, factory: FACTORY }))),
    describedBy: describe({ path: "The file's path" }),
  });
  commands.addCommand(COMMANDS.folder, {
    label: trans.__("Open as a Run"),
    caption: trans.__("Show the latest checkpoint in the folder of a training's run"),
    icon: markIcon,
    isVisible: () => picked(true).length > 0,
    execute: ({ path }) => (path !== undefined ? [String(path)] : picked(true).map(local)).map(openFolder).at(-1),
    describedBy: describe({ path: "The folder's path" }),
  });
  commands.addCommand(COMMANDS.compare, {
    label: trans.__("Compare Models…"),
    caption: trans.__("Hold structure and weights of two files against each other"),
    icon: markIcon,
    isEnabled: () => Boolean(current()) || picked(false).length > 0,
    execute: async (args) => {
      const chosen = picked(false).map(local);
      const a = (args.a as string | undefined) ?? current()?.path ?? chosen[0];
      const b = (args.b as string | undefined) ?? (args.a === undefined && chosen.length === 2 ? chosen.find((one) => one !== a) : undefined) ?? (a && (await ask(a)));
      return a && b ? openComparison(a, b) : undefined;
    },
    describedBy: describe({ a: "Path of the first file", b: "Path of the second one; it is asked for where it is not given" }),
  });
  commands.addCommand(COMMANDS.notebook, {
    label: trans.__("Open Model in a Notebook"),
    caption: trans.__("Make a notebook whose cell reads this file"),
    icon: markIcon,
    isEnabled: () => Boolean(current()),
    execute: () => current()?.act("notebook"),
    describedBy: describe({}),
  });
  commands.addCommand(COMMANDS.insert, {
    label: trans.__("Insert a Cell That Reads This Model"),
    caption: trans.__("Below the active cell of the notebook that was last looked at"),
    icon: markIcon,
    isEnabled: () => Boolean(current() && notebooks?.currentWidget),
    execute: () => current()?.act("insert"),
    describedBy: describe({}),
  });
  commands.addCommand(COMMANDS.reload, {
    label: trans.__("Read Model Again"),
    caption: trans.__("Read the file again from disk"),
    isEnabled: () => Boolean(current()),
    execute: () => current()?.reload(),
    describedBy: describe({}),
  });
  const category = trans.__("gradwright");
  for (const command of [COMMANDS.compare, COMMANDS.notebook, COMMANDS.insert, COMMANDS.reload]) palette?.addItem({ command, category });
  const enable = (): void => void Object.values(COMMANDS).forEach((command) => commands.notifyCommandChanged(command));
  files.currentChanged.connect(enable);
  folders.currentChanged.connect(enable);
}

/** What a command takes, for those who call it. */
function describe(args: Record<string, string>): { args: { type: "object"; properties: Record<string, { type: "string"; description: string }> } } {
  const properties = Object.fromEntries(Object.entries(args).map(([name, description]) => [name, { type: "string" as const, description }]));
  return { args: { type: "object", properties } };
}
