// The link to a notebook's kernel: what it has told so far, which stays when the kernel is gone.

import type { ISessionContext } from "@jupyterlab/apputils";
import type { Kernel } from "@jupyterlab/services";
import { Signal } from "@lumino/signaling";
import { extended, NOTHING, type Curve, type Failure, type Message, type Told, type View } from "./told";

const TARGET = "gradwright.panel";
/** Imports our widgets where they are installed: that sets the hook. It leaves no name, no output and no number. */
const HOOK = "bool(__import__('importlib.util').util.find_spec('gradwright_widgets') and __import__('gradwright_widgets'))";
const PATIENCE = 15_000; // ms that an answer may take; a busy kernel without subshells has none before its cell ends

/** This tab of the browser, also when it is loaded anew. */
function page(): string {
  const known = sessionStorage.getItem("gradwright:page") ?? crypto.randomUUID();
  sessionStorage.setItem("gradwright:page", known);
  return known;
}

export class Link {
  told: Told = NOTHING;
  readonly curves = new Map<string, Curve>();
  failure: Failure | null = null;
  /** Why nothing is heard any more; "" while the kernel lives. */
  gone: "" | "restarted" | "ended" = "";
  readonly changed = new Signal<this, keyof Told | "curves" | "failure" | "gone">(this);
  readonly viewed = new Signal<this, View>(this);
  private comm: Kernel.IComm | undefined;
  private kernel: Kernel.IKernelConnection | null = null;
  private joining: object | undefined; // the attempt under way: only the latest one may open a comm
  private isDisposed = false;
  private fresh = false; // a new kernel, of which nothing is known yet
  private readonly waiting = new Map<number, (answer: Record<string, unknown> & { error?: string }) => void>();
  private asked = 0;

  constructor(private readonly session: ISessionContext) {
    session.kernelChanged.connect(this.connect, this);
    session.statusChanged.connect(this.look, this);
    session.ready.then(() => this.connect()).catch(() => undefined);
  }

  dispose(): void {
    this.session.kernelChanged.disconnect(this.connect, this);
    this.session.statusChanged.disconnect(this.look, this);
    this.isDisposed = true;
    const { comm } = this;
    this.comm = this.joining = undefined;
    if (comm && !comm.isDisposed) comm.close();
    Signal.clearData(this);
  }

  get heard(): boolean {
    return this.told.graphs.length + this.told.trainings.length + this.told.checks.length + this.told.runs.length > 0;
  }

  /** Asks the kernel; raises what it refuses, and that nobody answers. */
  ask<T>(kind: string, facts: Record<string, unknown> = {}): Promise<T> {
    const { comm } = this;
    if (!comm || comm.isDisposed || this.gone) return Promise.reject(new Error("The kernel is gone: run the cell again."));
    const id = ++this.asked;
    return new Promise<T>((done, refuse) => {
      const timer = setTimeout(() => {
        this.waiting.delete(id);
        refuse(new Error("The kernel is busy with a cell, and hears this when the cell ends."));
      }, PATIENCE);
      this.waiting.set(id, (answer) => {
        clearTimeout(timer);
        if (answer.error) refuse(new Error(answer.error));
        else done(answer as T);
      });
      comm.send({ kind, id, ...facts } as never);
    });
  }

  /** Takes an error that was asked for. */
  fail(failure: Failure | null): void {
    this.failure = failure;
    this.changed.emit("failure");
  }

  private connect(): void {
    if (this.isDisposed) return; // before its session was ready
    const kernel = this.session.session?.kernel ?? null;
    if (kernel === this.kernel && (this.joining || (this.comm && !this.comm.isDisposed))) return;
    if (this.kernel && kernel !== this.kernel) this.lose(kernel ? "restarted" : "ended");
    this.kernel = kernel;
    this.comm = undefined;
    const attempt = (this.joining = kernel ? {} : undefined);
    if (!kernel || !attempt) return;
    void this.open(kernel, attempt).catch(() => undefined).finally(() => {
      if (this.joining === attempt) this.joining = undefined;
    });
  }

  private look(_: ISessionContext, status: Kernel.Status): void {
    if (status === "restarting" || status === "autorestarting") {
      this.lose("restarted");
      this.kernel = null;
    } else if (status === "dead" || status === "terminating") {
      this.lose("ended");
      this.kernel = null;
    } else if (!this.kernel && (status === "idle" || status === "starting" || status === "busy")) this.connect();
  }

  private lose(how: "restarted" | "ended"): void {
    this.comm = this.joining = undefined;
    if (this.gone === how) return;
    this.gone = how;
    this.changed.emit("gone");
  }

  private async open(kernel: Kernel.IKernelConnection, attempt: object): Promise<void> {
    const { language_info: language } = (await kernel.info) as { language_info?: { name?: string } };
    if (language?.name !== "python" || this.joining !== attempt) return;
    // One that is busy would set the hook when its cell ends; it may have it already, as after a reload of the page.
    if (kernel.status !== "busy") await this.hook(kernel, attempt);
    else {
      await this.join(kernel);
      if (this.joining === attempt) await this.hook(kernel, attempt);
    }
  }

  private async hook(kernel: Kernel.IKernelConnection, attempt: object): Promise<void> {
    const request = kernel.requestExecute({ code: "", silent: true, store_history: false, user_expressions: { hook: HOOK } }, true);
    const { content } = (await request.done) as { content: { user_expressions?: Record<string, { data?: Record<string, string> }> } };
    if (this.joining === attempt && content.user_expressions?.hook?.data?.["text/plain"] === "True") void this.join(kernel);
  }

  /** Opens a comm; it ends when the kernel has refused or closed it, and is of no more use. */
  private join(kernel: Kernel.IKernelConnection): Promise<void> {
    const comm = kernel.createComm(TARGET);
    this.comm = comm;
    this.fresh = true;
    comm.onMsg = (message) => this.read(message.content.data as unknown as Message);
    const closed = new Promise<void>((done) => (comm.onClose = () => done()));
    comm.open({});
    comm.send({ kind: "hello", page: page() });
    return closed;
  }

  private read(message: Message): void {
    switch (message.kind) {
      case "state": {
        const { kind, ...rows } = message;
        this.take(rows);
        return;
      }
      case "curve":
        this.curves.set(message.key, extended(this.curves.get(message.key), message.anew, message.steps, message.losses));
        this.changed.emit("curves");
        return;
      case "failure":
        if (this.fresh && this.gone && !message.facts) return;
        this.fail(message.facts);
        return;
      case "view":
        this.viewed.emit(message);
        return;
      case "answer":
        this.waiting.get(message.id)?.(message);
        this.waiting.delete(message.id);
    }
  }

  /** What a kernel before this one has told stays until this one has something to tell. */
  private take(rows: Partial<Told>): void {
    if (this.gone && !Object.values(rows).some((held) => (Array.isArray(held) ? held.length : Object.keys(held).length))) return;
    if (this.gone) {
      this.gone = "";
      this.told = NOTHING;
      this.curves.clear();
      this.failure = null;
      this.changed.emit("gone");
    }
    this.fresh = false;
    this.told = { ...this.told, ...rows };
    for (const name of Object.keys(rows) as (keyof Told)[]) this.changed.emit(name);
  }
}
