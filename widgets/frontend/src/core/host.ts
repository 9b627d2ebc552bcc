// The page's side of a notebook: whether a kernel stands behind a model, what it is doing, and whether messages arrive.

import type { Model } from "./afm";

interface Comm {
  on_msg(callback: (message: unknown) => unknown): void;
  send(data: unknown): unknown;
}

/** A model of ipywidgets, as far as it is looked at here. */
interface HostModel {
  comm?: Comm;
  comm_live: boolean;
  widget_manager?: { kernel?: { status?: string; connectionStatus?: string; isDisposed?: boolean } | null };
  _handle_comm_msg(message: unknown): Promise<unknown>;
}

const MARK = "gw_host" as "message"; // no trait, so the kernel passes over it

/** The model behind the few functions that anywidget hands out: ipywidgets tells it to who listens. Other hosts have none. */
function hostModel(model: Model): HostModel | undefined {
  let found: unknown;
  const look = (first: unknown): void => void (found = first);
  model.on(`change:${MARK}`, look);
  model.set(MARK, "?");
  model.set(MARK, undefined as unknown as string);
  model.off(`change:${MARK}`, look);
  return typeof found === "object" && found !== null && "comm_live" in found ? (found as HostModel) : undefined;
}

/** Whether the model came from a file and not from a kernel: a notebook made into a page. */
export function isDetached(model: Model): boolean {
  const host = hostModel(model);
  return host !== undefined && host.comm === undefined;
}

/** What a kernel that does not answer is doing, as far as the host knows. */
export function kernelState(model: Model): "busy" | "gone" | "unknown" {
  const kernel = hostModel(model)?.widget_manager?.kernel;
  if (!kernel?.status) return "unknown";
  const reached = !kernel.isDisposed && (kernel.connectionStatus ?? "connected") === "connected";
  return reached && kernel.status === "busy" ? "busy" : "gone";
}

/**
 * Has messages arrive that anywidget would keep back: a module that is not there two seconds after its model (a busy
 * machine, a slow line) never hears any. Then they are taken as ipywidgets takes them, and the state is asked for anew.
 */
export function hearLate(model: Model): void {
  const host = hostModel(model);
  const { comm } = host ?? {};
  if (!host || !comm) return;
  host._handle_comm_msg({ content: { data: { method: "" } } }).catch(() => {
    let owner = Object.getPrototypeOf(host) as HostModel;
    while (!Object.hasOwn(owner, "_handle_comm_msg")) owner = Object.getPrototypeOf(owner) as HostModel;
    const usual = (Object.getPrototypeOf(owner) as HostModel)._handle_comm_msg;
    comm.on_msg((message) => usual.call(host, message));
    comm.send({ method: "request_state" });
  });
}
