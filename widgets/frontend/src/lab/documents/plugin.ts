// Models open by double click: file types, the factory of documents, and their coming back with the layout.

import { ILayoutRestorer, type JupyterFrontEnd, type JupyterFrontEndPlugin } from "@jupyterlab/application";
import { WidgetTracker } from "@jupyterlab/apputils";
import { ABCWidgetFactory, DocumentWidget, type DocumentRegistry } from "@jupyterlab/docregistry";
import { ITranslator, nullTranslator } from "@jupyterlab/translation";
import { markIcon } from "../icons";
import { servedBy } from "../served";
import type { About } from "../viewer/page";
import { FileView } from "./content";
import { REFERENCE, ReferenceFactory } from "./reference";

const FACTORY = "gradwright";
const TYPES = [
  { name: "gradwright-archive", displayName: "gradwright archive", extensions: [".gw"] },
  { name: "gradwright-onnx", displayName: "ONNX model", extensions: [".onnx"] },
  { name: "gradwright-safetensors", displayName: "safetensors", extensions: [".safetensors"] },
];

class ModelFactory extends ABCWidgetFactory<DocumentWidget<FileView>> {
  constructor(options: DocumentRegistry.IWidgetFactoryOptions, private readonly about: (path: string) => About) {
    super(options);
  }

  protected override createNewWidget(context: DocumentRegistry.Context): DocumentWidget<FileView> {
    const content = new FileView(this.about(context.localPath), []);
    context.pathChanged.connect(() => content.move(context.localPath));
    return new DocumentWidget({ content, context });
  }
}

export const documents: JupyterFrontEndPlugin<void> = {
  id: "gradwright:documents",
  description: "Opens models (.gw, checkpoints, ONNX, safetensors) as documents, without a kernel.",
  autoStart: true,
  optional: [ITranslator, ILayoutRestorer],
  activate(app: JupyterFrontEnd, translator: ITranslator | null, restorer: ILayoutRestorer | null) {
    const trans = (translator ?? nullTranslator).load("gradwright");
    const served = servedBy(app.serviceManager.serverSettings);
    const words = trans.__.bind(trans);
    const names = TYPES.map((type) => {
      app.docRegistry.addFileType({ ...type, mimeTypes: [], contentType: "file", fileFormat: null, icon: markIcon });
      return type.name;
    });
    app.docRegistry.addModelFactory(new ReferenceFactory());
    const factory = new ModelFactory(
      { name: FACTORY, label: trans.__("Model"), modelName: REFERENCE, fileTypes: names, defaultFor: names, readOnly: true, translator: translator ?? undefined },
      (path) => ({ served, path, words }),
    );
    app.docRegistry.addWidgetFactory(factory);
    const tracker = new WidgetTracker<DocumentWidget<FileView>>({ namespace: "gradwright" });
    factory.widgetCreated.connect((_, widget) => {
      widget.title.icon = markIcon;
      void tracker.add(widget);
      widget.context.pathChanged.connect(() => void tracker.save(widget));
    });
    void restorer?.restore(tracker, {
      command: "docmanager:open",
      args: ({ context }) => ({ path: context.path, factory: FACTORY }),
      name: ({ context }) => context.path,
    });
  },
};
