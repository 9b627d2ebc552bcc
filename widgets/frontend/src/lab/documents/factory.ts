// The factory of documents: a model's file in a tab, shown by reference.

import { PathExt } from "@jupyterlab/coreutils";
import { ABCWidgetFactory, DocumentWidget, type DocumentRegistry } from "@jupyterlab/docregistry";
import { Signal } from "@lumino/signaling";
import { markIcon } from "../icons";
import { FileView, type Given } from "./content";
import { modelPath } from "./types";

export const FACTORY = "gradwright";

export type ModelDocument = DocumentWidget<FileView>;

export class ModelFactory extends ABCWidgetFactory<ModelDocument> {
  constructor(options: DocumentRegistry.IWidgetFactoryOptions, private readonly given: (path: string) => Given) {
    super(options);
  }

  protected override createNewWidget(context: DocumentRegistry.Context): ModelDocument {
    const content = new FileView(this.given(modelPath(context.localPath)));
    // There is nothing to save: "Save" and "Save All" pass by, and neither write over the file nor copy it as a checkpoint.
    context.save = () => Promise.resolve();
    context.createCheckpoint = () => Promise.resolve({ id: "", last_modified: "" });
    context.listCheckpoints = () => Promise.resolve([]); // the server makes a folder for them to look into
    const document = new DocumentWidget({ content, context });
    document.title.icon = markIcon;
    // A run is called after its folder, and its record keeps its name: a document takes another title for another name of its file.
    Signal.disconnectBetween(document.title, document);
    const named = (): void => void (document.title.label = PathExt.basename(content.path) || "/");
    context.pathChanged.connect(() => {
      content.move(modelPath(context.localPath));
      named();
    });
    named();
    document.toolbar.hide(); // what there is to do stands in the head of the document
    return document;
  }
}
