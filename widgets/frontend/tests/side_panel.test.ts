// What the side panel and the document of runs make of what they are told.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Link } from "../src/lab/panel/link";
import { servedPath } from "../src/lab/panel/paths";
import { pathOf } from "../src/lab/panel/sparkline";
import { BEFORE, extended, foremost, fraction, markOf, type Curve, type TrainingRow } from "../src/lab/panel/told";
import { added, metricsOf, NEW, points, spread } from "../src/lab/runs/recorded";

const row = (facts: Partial<TrainingRow>): TrainingRow => ({
  key: "t", name: "net", loss_name: "loss", status: "idle", step: 0, epoch: 0, loss: 1, rate: 0, skipped: 0, outcome: "",
  reason: "", done: 0, total: null, left: null, ...facts,
});

test("the training that is told of outside is the one that runs, else paused, else the latest", () => {
  const [idle, paused, running, later] = [row({ key: "a", step: 9 }), row({ key: "b", status: "paused" }), row({ key: "c", status: "running" }), row({ key: "d", step: 1 })];
  assert.equal(foremost([idle, paused, running, later])?.key, "c");
  assert.equal(foremost([idle, paused, later])?.key, "b");
  assert.equal(foremost([idle, later, row({ key: "new" })])?.key, "d");
  assert.equal(foremost([row({})]), undefined);
});

test("titles begin with how far it is, and are found again", () => {
  assert.equal(markOf(row({ status: "running", done: 21, total: 50 })), "42 %");
  assert.equal(markOf(row({ status: "running" })), "▸");
  assert.equal(markOf(row({ status: "paused", done: 21, total: 50 })), "‖");
  assert.equal(markOf(row({ done: 50, total: 50 })), "");
  for (const mark of ["42 %", "▸", "‖"]) assert.equal(`${mark} a 5 % b.ipynb`.replace(BEFORE, ""), "a 5 % b.ipynb");
  assert.equal(fraction({ done: 60, total: 50 }), 1);
});

test("a curve that grows for ever is thinned, and keeps its last point", () => {
  let curve: Curve | undefined;
  for (let step = 0; step < 30_000; step += 100) {
    const steps = Array.from({ length: 100 }, (_, k) => step + k);
    curve = extended(curve, false, steps, steps);
  }
  assert(curve!.steps.length <= 8000);
  assert.equal(curve!.steps.at(-1), 29_999);
  assert.deepEqual(extended(curve, true, [1], ["NaN"]), { steps: [1], losses: [NaN] });
});

test("a sparkline leaves gaps for what is not finite", () => {
  assert.equal(pathOf({ steps: [1], losses: [1] }), "");
  assert.equal(pathOf({ steps: [0, 1, 2, 3], losses: [3, NaN, 1, 2] }).match(/M/g)?.length, 2);
  assert(!pathOf({ steps: [0, 1], losses: [1, 1] }).includes("NaN"));
});

test("a file of the kernel is a path of the server only below its root", () => {
  assert.equal(servedPath("/srv/work/a/b.py", "/srv/work/"), "a/b.py");
  assert.equal(servedPath("/srv/workshop/b.py", "/srv/work"), undefined);
  assert.equal(servedPath("/home/me/work/b.py", "~/work"), "b.py");
  assert.equal(servedPath("/home/me/other/work/b.py", "~/work"), undefined);
  assert.equal(servedPath("C:\\Users\\me\\w\\b.py", "~/w"), "b.py");
  assert.equal(servedPath("/b.py", ""), undefined);
});

test("what a run has recorded grows, and a training that went on from before drops what was after", () => {
  const first = added(NEW, { next: 10, cut: { step: 0, epoch: 0 }, steps: { step: [1, 2, 3], epoch: [1, 1, 2], loss: [3, 2, 1] }, epochs: { step: [2], epoch: [1], val_loss: [2.5] } });
  const second = added(first, { next: 20, cut: { step: 2, epoch: 1 }, steps: { step: [3], epoch: [2], loss: [null], rate: ["Infinity"] }, epochs: {} });
  assert.deepEqual(second.steps.step, [1, 2, 3]);
  assert.deepEqual(second.steps.rate, [null, null, "Infinity"]);
  assert.deepEqual(metricsOf([second]), ["val_loss", "each step: loss", "each step: rate"]);
  assert.deepEqual(points(second, "each step: loss", "step"), { x: [1, 2, 3], y: [3, 2, NaN] });
  assert.deepEqual(points(second, "each step: rate", "step").y, [NaN, NaN, Infinity]);
  assert.deepEqual(points(second, "val_loss", "epoch"), { x: [1], y: [2.5] });
  assert.deepEqual(points(second, "nothing", "epoch"), { x: [], y: [] });
  assert.deepEqual(spread([1, 1, 2, 2]), [0.5, 1, 1.5, 2]);
});

test("a curve of a long run is drawn by ten thousand points, the last among them", () => {
  const step = Array.from({ length: 25_000 }, (_, k) => k + 1);
  const { x } = points(added(NEW, { next: 1, cut: null, steps: { step, loss: step }, epochs: {} }), "each step: loss", "step");
  assert(x.length <= 10_000 && x.at(-1) === 25_000);
});

// -- the link to a kernel --------------------------------------------------------------------------

/** A signal that a test raises by hand. */
function signal(): { connect(slot: (...args: unknown[]) => void, self: unknown): void; disconnect(): void; raise(...args: unknown[]): void } {
  const slots: (() => void)[] = [];
  return { connect: (slot, self) => void slots.push(slot.bind(self)), disconnect: () => void slots.splice(0), raise: (...args) => slots.forEach((slot) => (slot as (...all: unknown[]) => void)(...args)) };
}

interface Comm {
  isDisposed: boolean;
  onClose: () => void;
  close(): void;
  open(): void;
  send(): void;
}

/** A kernel that notes each comm, and how often the hook was asked for. */
function kernelOf(status: string, hooks = true): { comms: Comm[]; asked: () => number; kernel: Record<string, unknown> } {
  const comms: Comm[] = [];
  let asked = 0;
  const createComm = (): Comm => {
    const comm: Comm = {
      isDisposed: false, onClose: () => undefined, open: () => undefined, send: () => undefined,
      close: () => {
        comm.isDisposed = true;
        comm.onClose(); // as JupyterLab's comms do, whoever closes them
      },
    };
    comms.push(comm);
    return comm;
  };
  const requestExecute = (): object => ({ done: Promise.resolve({ content: { user_expressions: { hook: { data: { "text/plain": hooks ? (asked++, "True") : "False" } } } } }) });
  return { comms, asked: () => asked, kernel: { status, info: Promise.resolve({ language_info: { name: "python" } }), createComm, requestExecute } };
}

function sessionOf(kernel: Record<string, unknown>): { session: Record<string, unknown>; kernelChanged: ReturnType<typeof signal>; statusChanged: ReturnType<typeof signal>; link: Link } {
  const [kernelChanged, statusChanged] = [signal(), signal()];
  const session = { kernelChanged, statusChanged, ready: Promise.resolve(), session: { kernel } };
  return { session, kernelChanged, statusChanged, link: new Link(session as never) };
}

const settled = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 5));
Object.assign(globalThis, { sessionStorage: { getItem: () => "page", setItem: () => undefined } });

test("however often a kernel is announced, one comm is opened", async () => {
  const { comms, asked, kernel } = kernelOf("idle");
  const { kernelChanged } = sessionOf(kernel);
  kernelChanged.raise(); // beside the session's being ready
  kernelChanged.raise();
  await settled();
  kernelChanged.raise();
  await settled();
  assert.deepEqual([comms.length, asked()], [1, 1]);
});

test("a busy kernel is joined at once, and hooked only where it has refused that", async () => {
  const busy = kernelOf("busy");
  const { kernelChanged } = sessionOf(busy.kernel);
  await settled();
  kernelChanged.raise();
  await settled();
  assert.deepEqual([busy.comms.length, busy.asked()], [1, 0]);
  busy.comms[0].close();
  await settled();
  assert.deepEqual([busy.comms.length, busy.asked()], [2, 1]);
});

test("a link that is given up opens nothing more, whatever it was about to do", async () => {
  const busy = kernelOf("busy");
  const joined = sessionOf(busy.kernel);
  await settled();
  joined.link.dispose();
  await settled();
  const idle = kernelOf("idle");
  sessionOf(idle.kernel).link.dispose();
  await settled();
  assert.deepEqual([busy.comms.length, busy.asked(), idle.comms.length], [1, 0, 0]);
});

test("after a restart the same kernel is joined anew, once", async () => {
  const { comms, kernel } = kernelOf("idle");
  const { session, statusChanged, kernelChanged } = sessionOf(kernel);
  await settled();
  statusChanged.raise(session, "restarting");
  statusChanged.raise(session, "starting");
  kernelChanged.raise();
  statusChanged.raise(session, "idle");
  await settled();
  assert.equal(comms.length, 2);
});
