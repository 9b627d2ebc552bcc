// What every widget has around its panels: style sheet, height, keyboard manners, the message line.

import { ask, Cleanup, onWaiting, waitingRequests, type Model, type RenderContext, type Widget } from "./afm";
import { element } from "./dom";
import { mountEdits } from "./edits";
import { hearLate, isDetached, kernelState } from "./host";
import { keepFocus, keepKeys } from "./keep_focus";
import type { Panel } from "./panel";
import { DetachedModel, SavedModel, type Saved } from "./saved";
import { styleSheet } from "./style";
import { themeOf } from "./theme";

const GONE =
  "The kernel does not answer: it has ended or was restarted. Run the cell again, or load a page without cells anew, to bring this view " +
  "back to life; until then it is still.";
const BUSY =
  "The kernel is busy with a cell and cannot hear this panel; it will when the cell ends. " +
  "Training and checks that are started from a panel can always be paused and stopped.";
const UNSURE = "The kernel does not answer. It is busy, and will hear this panel when it is free, or it has ended.";

const MARGINS = 24; // px, of an output in a view of its own
const WORDS = { busy: BUSY, gone: GONE, unknown: UNSURE };

type Factory = () => Widget;

/**
 * What a widget's module exports: `widget`, which the notebook calls once per model, and `open`, which shows the widget in a
 * page without a kernel and returns what takes it down again.
 */
export function defineWidget<Shared>(panel: Panel<Shared>): { widget: Factory; open: (el: HTMLElement, saved: Saved) => () => void } {
  const widget = factory(panel);
  return { widget, open: (el, saved) => showPanel(panel, el, new SavedModel(saved)) };
}

/** Shows a panel over a model of its own, as a widget would; returns what takes it down again. */
export function showPanel<Shared>(panel: Panel<Shared>, el: HTMLElement, model: Model): () => void {
  const shown = factory(panel)();
  shown.initialize?.({ model });
  return shown.render({ model, el }) ?? (() => undefined);
}

function factory<Shared>(panel: Panel<Shared>): Factory {
  return () => {
    let shared: Shared | undefined;
    let still: Model | undefined; // a notebook that was made into a page: what is in its file stands for the kernel
    return {
      initialize({ model }) {
        if (isDetached(model)) still = new DetachedModel(model);
        shared = panel.prepare(still ?? model);
        if (!still) hearLate(model);
      },
      render({ model: given, el }: RenderContext) {
        const model = still ?? given;
        const root = element("div", { class: "gw", "data-gw-view": model.get("_view") });
        root.append(element("style", {}, styleSheet())); // in the view itself: the host may use a shadow root
        el.append(root);
        const cleanup = new Cleanup();
        const message = element("div", { class: "gw-message", role: "alert", hidden: true });
        const notice = element("div", { class: "gw-message gw-notice", role: "status", hidden: true });
        let doubted = false; // the host has lost or found the kernel's side of this widget, without saying which
        const onKernel = (): void => {
          const waiting = waitingRequests(model) > 0;
          notice.textContent = !waiting ? "" : doubted ? GONE : WORDS[kernelState(model)];
          notice.hidden = !waiting;
          doubted &&= waiting;
        };
        const update = (): void => {
          if (!root.closest(".jp-LinkedOutputView")) root.style.setProperty("--gw-height", `${Number(model.get("height")) || 420}px`);
          message.textContent = String(model.get("message") ?? "");
          message.hidden = !message.textContent;
        };
        cleanup.model(model, "change:height", update);
        cleanup.model(model, "change:message", update);
        cleanup.model(model, "comm_live_update", () => {
          doubted = true;
          ask(model, "desk.hear");
        });
        cleanup.add(onWaiting(model, onKernel));
        // Also a panel without a drawing has the palette of the page, from the moment that it is in the page.
        const theme = themeOf(root, cleanup, () => void theme());
        // An output that was put into a view of its own fills it.
        let frame: Element | null = null;
        const placed = new ResizeObserver(() => {
          void theme();
          if (root.offsetParent && root.offsetWidth < MARGINS) root.dataset.gwFitted = "";
          if (!frame && (frame = root.closest(".jp-LinkedOutputView"))) placed.observe(frame);
          if (!frame) return;
          const below = [...root.querySelectorAll<HTMLElement>(":scope > :is(.gw-edits, .gw-message)")].reduce((sum, line) => sum + line.offsetHeight, 0);
          root.style.setProperty("--gw-height", `${Math.max(240, frame.clientHeight - below - MARGINS)}px`);
        });
        placed.observe(root);
        cleanup.add(() => placed.disconnect());
        cleanup.add(panel.mount(root, model, (shared ??= panel.prepare(model))));
        mountEdits(root, model, cleanup);
        root.append(notice, message);
        cleanup.add(keepFocus(root));
        cleanup.add(keepKeys(root));
        update();
        return () => {
          cleanup.run();
          root.remove();
        };
      },
    };
  };
}
