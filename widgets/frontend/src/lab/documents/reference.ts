// Documents by reference: JupyterLab knows that a file is there and what it is called, and reads nothing of it. Otherwise it
// would take all of a file of gigabytes into the page, and copy it into .ipynb_checkpoints.

import { DocumentModel, type DocumentRegistry } from "@jupyterlab/docregistry";
import type { Contents } from "@jupyterlab/services";

export const REFERENCE = "gradwright-reference";

/** A model without content. Nothing that asks for it, such as a save, may get any: it would be written over the file. */
class ReferenceModel extends DocumentModel {
  /** JupyterLab keeps no checkpoint of what it takes to be shared. */
  override get collaborative(): boolean {
    return true;
  }

  override get readOnly(): boolean {
    return true;
  }

  override set readOnly(_: boolean) {}

  override toString(): string {
    throw new Error("A model's file is shown by reference: there is no text of it to save.");
  }
}

export class ReferenceFactory implements DocumentRegistry.IModelFactory<DocumentRegistry.IModel> {
  readonly name = REFERENCE;
  readonly contentType: Contents.ContentType = "file";
  readonly fileFormat: Contents.FileFormat = null;
  readonly collaborative = false;
  isDisposed = false;

  dispose(): void {
    this.isDisposed = true;
  }

  createNew(options?: DocumentRegistry.IModelOptions): DocumentRegistry.IModel {
    return new ReferenceModel(options as ConstructorParameters<typeof DocumentModel>[0]);
  }

  preferredLanguage(): string {
    return "";
  }
}
