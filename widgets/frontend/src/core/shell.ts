// What every widget has around its panels: style sheet, height, keyboard manners, the message line, and a way to live
// in a file without a kernel.

import { ask, Cleanup, onWaiting, waitingRequests, type Model, type RenderContext, type Widget } from "./afm";
import type { Traits } from "./contract";
import { element } from "./dom";
import { hearLate, isDetached, kernelState } from "./host";
import { keepFocus } from "./keep_focus";
import type { Panel } from "./panel";
import { styleSheet } from "./style";
import { themeOf } from "./theme";

const GONE =
  "The kernel does not answer. If it was restarted, run the cell again to bring this view back to life; until then it is still.";
const BUSY =
  "The kernel is busy with a cell and cannot hear this panel; it will when the cell ends. " +
  "Training and checks that are started from a panel can always be paused and stopped.";
const UNSURE = "The kernel does not answer. It is busy, and will hear this panel when it is free, or it has ended.";

const WORDS = { busy: BUSY, gone: GONE, unknown: UNSURE };

type Factory = () => Widget;

/**
 * What a widget's module exports: `widget`, which the notebook calls once per model, and `open`, which shows the widget in a
 * page without a kernel.
 */
export function defineWidget<Shared>(panel: Panel<Shared>): { widget: Factory; open: (el: HTMLElement, saved: Saved) => void } {
  const widget = factory(panel);
  return { widget, open: (el, saved) => openSaved(widget, el, saved) };
}

function factory<Shared>(panel: Panel<Shared>): Factory {
  return () => {
    let shared: Shared | undefined;
    let still: Model | undefined; // a notebook that was made into a page: what is in its file stands for the kernel
    return {
      initialize({ model }) {
        if (isDetached(model)) still = stillModel((key) => model.get(key as keyof Traits), (model.get("_kept") ?? []) as Kept[]);
        shared = panel.prepare(still ?? model);
        if (!still) hearLate(model);
      },
      render({ model: given, el }: RenderContext) {
        const model = still ?? given;
        const root = element("div", { class: "gw", "data-gw-view": model.get("_view"), "data-lm-suppress-shortcuts": "true" });
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
          root.style.setProperty("--gw-height", `${Number(model.get("height")) || 420}px`);
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
        const placed = new ResizeObserver(() => void theme());
        placed.observe(root);
        cleanup.add(() => placed.disconnect());
        cleanup.add(panel.mount(root, model, (shared ??= panel.prepare(model))));
        root.append(notice, message);
        cleanup.add(keepFocus(root));
        update();
        return () => {
          cleanup.run();
          root.remove();
        };
      },
    };
  };
}

/** What the kernel would tell a new view. */
interface Kept {
  content: unknown;
  buffers: unknown[];
}

/** State of a widget in a file: traits, and the messages that a new view would get from the kernel. */
interface Saved {
  state: Record<string, unknown>;
  messages: Kept[];
}

/** Shows a widget without a kernel. What is drawn can be explored; what would change the graph is left alone. */
function openSaved(widget: Factory, el: HTMLElement, saved: Saved): void {
  const state = revive(saved.state) as Record<string, unknown>;
  const model = stillModel((key) => state[key], saved.messages.map(({ content, buffers }) => ({ content, buffers: revive(buffers) as unknown[] })));
  const shown = widget();
  shown.initialize?.({ model });
  shown.render({ model, el });
}

/** A model without a kernel: it answers with the messages that were kept, and refuses what would change anything. */
function stillModel(kept: (key: string) => unknown, messages: readonly Kept[]): Model & { saved: true } {
  const own = new Map<string, unknown>();
  const listeners = new Map<string, Set<(...args: unknown[]) => void>>();
  const emit = (event: string, ...args: unknown[]): void => listeners.get(event)?.forEach((callback) => callback(...args));
  const set = (key: string, value: unknown): void => {
    own.set(key, value);
    emit(`change:${key}`);
  };
  return {
    saved: true,
    get: <K extends keyof Traits>(key: K) => (own.has(key) ? own.get(key) : kept(key)) as Traits[K],
    set,
    save_changes: () => undefined,
    send: (content) => {
      const { kind, id } = content as { kind: string; id?: number };
      queueMicrotask(() => {
        if (kind.endsWith(".sync")) for (const m of messages) emit("msg:custom", m.content, m.buffers);
        else {
          set("message", "This is a saved view: open the notebook to change anything.");
          emit("msg:custom", { kind: "refused", id }, []);
        }
      });
    },
    on: (event, callback) => {
      const known = listeners.get(event);
      if (known) known.add(callback as () => void);
      else listeners.set(event, new Set([callback as () => void]));
    },
    off: (event, callback) => void listeners.get(event)?.delete(callback as () => void),
  };
}

/** Buffers are stored as `{"$bytes": base64}`. */
function revive(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(revive);
  if (value === null || typeof value !== "object") return value;
  const { $bytes } = value as { $bytes?: string };
  if (typeof $bytes === "string") return new DataView(Uint8Array.from(atob($bytes), (c) => c.charCodeAt(0)).buffer);
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, revive(inner)]));
}
