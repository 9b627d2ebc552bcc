// What a kernel tells over the panel's comm: see gradwright_widgets/bridge.

/** A number, or the word for what JSON has no number for. */
export type Figure = number | "NaN" | "Infinity" | "-Infinity";

export interface GraphRow {
  key: string;
  name: string;
  nodes: number;
  parameters: number;
  /** Whether it is of a language model. */
  writes: boolean;
}

export interface TrainingRow {
  key: string;
  name: string;
  loss_name: string;
  status: "idle" | "running" | "paused";
  step: number;
  epoch: number;
  loss: Figure;
  /** Steps a second. */
  rate: number;
  /** Updates that were left out, since something was not finite. */
  skipped: number;
  outcome: "" | "running" | "finished" | "stopped" | "terminated" | "failed";
  reason: string;
  /** Steps of this fit, and how many it was asked for. */
  done: number;
  total: number | null;
  /** Seconds to go. */
  left: number | null;
}

export interface StepperRow {
  key: string;
  name: string;
  /** Address of the node that runs next. */
  at: string;
}

export interface RunRow {
  key: string;
  name: string;
  folder: string;
  recording: boolean;
}

export interface CheckRow {
  key: string;
  loss: string;
  outcome: "passed" | "failed" | "stopped" | "unclear";
  blame: string[];
}

export interface Place {
  /** Id of the cell that built the node, "" where none did. */
  cell: string;
  /** The file of the line, "" where it stands in the cell itself. */
  file: string;
  line: number;
  where: string;
  code: [number, string][];
}

export interface Failure {
  kind: string;
  problem: string;
  facts: string[];
  need: string;
  hint: string;
  graph: string;
  node: string;
  op: string;
  about: string;
  place: Place;
  svg: string;
}

export interface Told {
  graphs: GraphRow[];
  trainings: TrainingRow[];
  steppers: StepperRow[];
  runs: RunRow[];
  checks: CheckRow[];
  /** Cell -> graph -> how many nodes it has built. */
  cells: Record<string, Record<string, number>>;
}

export interface View {
  pin: string;
  view: string;
  key: string;
  title: string;
  model: string;
}

export type Message =
  | ({ kind: "state" } & Partial<Told>)
  | { kind: "curve"; key: string; anew: boolean; steps: number[]; losses: Figure[] }
  | { kind: "failure"; facts: Failure | null }
  | ({ kind: "view" } & View)
  | ({ kind: "answer"; id: number; error?: string } & Record<string, unknown>);

export const NOTHING: Told = { graphs: [], trainings: [], steppers: [], runs: [], checks: [], cells: {} };

export interface Curve {
  steps: number[];
  losses: number[];
}

const MOST = 4000; // points that are kept of a curve; twice as many are thinned

/** Adds points to a curve; what has become too long keeps every second one. */
export function extended(curve: Curve | undefined, anew: boolean, steps: readonly number[], losses: readonly Figure[]): Curve {
  const held = curve && !anew ? curve : { steps: [], losses: [] };
  held.steps.push(...steps);
  held.losses.push(...losses.map(Number));
  if (held.steps.length <= 2 * MOST) return held;
  const kept = (_: number, k: number): boolean => k % 2 === (held.steps.length - 1) % 2;
  return { steps: held.steps.filter(kept), losses: held.losses.filter(kept) };
}

/** How far a training is, from 0 to 1; undefined where it does not know. */
export function fraction({ done, total }: Pick<TrainingRow, "done" | "total">): number | undefined {
  return total ? Math.min(1, done / total) : undefined;
}

/** What runs is what the status bar tells of: the latest training that runs, else one that is paused, else the latest. */
export function foremost(trainings: readonly TrainingRow[]): TrainingRow | undefined {
  const latest = (status: string): TrainingRow | undefined => trainings.filter((row) => row.status === status).at(-1);
  return latest("running") ?? latest("paused") ?? trainings.filter(({ step }) => step > 0).at(-1);
}

/** A mark, as it stands before a title. */
export const BEFORE = /^(?:\d+ %|‖|▸) /;

/** `42 %` of a training that knows its length, a sign for others; nothing where none is under way. */
export function markOf(row: TrainingRow | undefined): string {
  if (!row || row.status === "idle") return "";
  if (row.status === "paused") return "‖";
  const done = fraction(row);
  return done === undefined ? "▸" : `${Math.floor(100 * done)} %`;
}
