// A panel whose code comes when it is first needed. A widget's state holds its whole module, once for each instance: what few
// notebooks look at stays out of it.

import { Cleanup, type Model, type Named } from "./afm";
import type { Request, Told } from "./contract";
import type { Panel } from "./panel";
import { element } from "./dom";

/** What the bundle of such a panel exports. */
export interface Part {
  panel: Panel<unknown>;
  /** Its own rules, and those that all panels share. */
  styleSheet: () => string;
}

/**
 * The panel, once the list `needs` is not empty: the kernel is asked with `sync`, and answers with `told`, whose buffer is the
 * module. A page without a kernel has that in its file.
 */
export function lazyPanel(needs: Named<object[]>, sync: Request, told: Told): Panel<Promise<Part>> {
  const stores = new WeakMap<Model, unknown>();
  return {
    prepare: (model) => new Promise((resolve, reject) => {
      let asked = false;
      const look = (): void => {
        if (asked || !(model.get(needs) as object[] | undefined)?.length) return;
        asked = true;
        model.send({ kind: sync, module: true });
      };
      const hear = ({ kind }: { kind: Told }, [module]: DataView[]): void => {
        if (kind !== told) return;
        model.off("msg:custom", hear);
        model.off(`change:${needs}`, look);
        const url = URL.createObjectURL(new Blob([module as DataView<ArrayBuffer>], { type: "text/javascript" }));
        import(url).then(({ default: part }: { default: Part }) => resolve(part), reject).finally(() => URL.revokeObjectURL(url));
      };
      model.on("msg:custom", hear);
      model.on(`change:${needs}`, look);
      look();
    }),
    mount(host, model, loading) {
      const cleanup = new Cleanup();
      let gone = false;
      cleanup.add(() => (gone = true));
      loading.then(({ panel, styleSheet }) => {
        if (gone) return;
        if (!stores.has(model)) stores.set(model, panel.prepare(model));
        const style = element("style", {}, styleSheet());
        host.before(style);
        cleanup.add(() => style.remove());
        cleanup.add(panel.mount(host, model, stores.get(model)));
      }, (error: Error) => host.append(element("div", { class: "gw-empty" }, `This panel cannot be loaded: ${error.message}`)));
      return () => cleanup.run();
    },
  };
}
