// What the kernel has told about a launch on a simulated GPU: its steps, what all programs do, and one of them line by line.

import type { Model } from "../../core/afm";
import type { Told } from "../../core/contract";
import { followed, Store } from "../../core/store";

export interface StepRow {
  number: number;
  what: string;
  ops: string[];
  nodes: string[];
  why: string;
}

export interface Source {
  name: string;
  file: string;
  first: number;
  lines: string[];
}

export interface Operand {
  parameter: string;
  name: string;
  shape: number[];
  dtype: string;
  size: number;
  /** How many of its elements there is something known of: the first. */
  shown: number;
}

export interface Touch {
  line: number;
  argument: number;
  how: string;
  accesses: number;
  masked: number;
  bytes: number;
  distinct: number;
  sectors: number;
}

export interface Finding {
  line: number;
  program: number;
  text: string;
  parameter: string;
  name: string;
}

export interface Launch {
  step: number;
  launch: number;
  launches: number;
  name: string;
  grid: [number, number, number];
  total: number;
  /** Those that were looked at. */
  programs: number[];
  nodes: string[];
  bytes: number;
  source: Source;
  operands: Operand[];
  error: string;
  touches: Touch[];
  findings: Finding[];
}

export interface Variable {
  name: string;
  type: string;
  text: string;
  low: number | null;
  high: number | null;
  size: number;
}

export interface Access {
  argument: number;
  how: string;
  masked: number;
  shape: number[];
  /** The first of its two buffers: elements, then lanes. */
  buffer: number;
}

export interface Line {
  source: number;
  line: number;
  depth: number;
  changed: Variable[];
  accesses: Access[];
}

export interface Program {
  program: number;
  lines: Line[];
  sources: Source[];
  cut: boolean;
}

export interface Value {
  line: number;
  name: string;
  type: string;
  shape: number[];
  rows: number;
  columns: number;
  cut: boolean;
}

export interface Cost {
  capability: number;
  chip: string;
  registers: number;
  spilled: number;
  shared: number;
  threads: number;
  blocks: number;
  occupancy: number;
  limit: string;
  bytes: number;
  flops: number | null;
  memory: number;
  compute: number;
  bound: string;
  ptx: string;
  sass: string;
}

export interface Users {
  argument: number;
  element: number;
  reads: number[];
  writes: number[];
}

type Content = { kind: Told } & Partial<Launch & Program & Value & Cost & Users & { rows: StepRow[] | number }>;

const ints = (buffer: DataView): Int32Array => new Int32Array(buffer.buffer.slice(buffer.byteOffset, buffer.byteOffset + buffer.byteLength));

export class KernelStore extends Store<Content> {
  steps: readonly StepRow[] = [];
  launch: Launch | undefined;
  /** For each operand who reads each element, and who writes it: -1 is nobody, -2 several. */
  readers: Int32Array[] = [];
  writers: Int32Array[] = [];
  program: Program | undefined;
  value: Value | undefined;
  numbers: Float32Array = new Float32Array();
  cost: Cost | undefined;
  users: Users | undefined;
  private buffers: DataView[] = [];
  /** Of the program: where each operand is touched, by its number. */
  private touched = new Map<number, Uint8Array>();

  protected read(content: Content, buffers: DataView[]): boolean {
    const told = content as never;
    if (content.kind === "kernels.steps") this.steps = content.rows as StepRow[];
    else if (content.kind === "kernels.launch") this.takeLaunch(told, buffers);
    else if (content.kind === "kernels.program") this.takeProgram(told, buffers);
    else if (content.kind === "kernels.cost") this.cost = told;
    else if (content.kind === "kernels.users") this.users = told;
    else if (content.kind === "kernels.value") {
      this.value = told;
      this.numbers = new Float32Array(ints(buffers[0]).buffer);
    }
    return true;
  }

  private takeLaunch(launch: Launch, buffers: DataView[]): void {
    this.launch = launch;
    this.readers = launch.operands.map((_, k) => ints(buffers[2 * k]));
    this.writers = launch.operands.map((_, k) => ints(buffers[2 * k + 1]));
    this.cost = this.users = this.value = this.program = undefined;
  }

  private takeProgram(program: Program, buffers: DataView[]): void {
    this.program = program;
    this.buffers = buffers;
    this.value = undefined;
    this.touched.clear();
    for (const { accesses } of program.lines) for (const access of accesses) this.mark(access);
  }

  private mark(access: Access): void {
    const operand = this.launch?.operands[access.argument];
    if (!operand) return;
    const held = this.touched.get(access.argument) ?? new Uint8Array(operand.shown);
    this.touched.set(access.argument, held);
    for (const element of this.elements(access)) if (element < held.length) held[element] = 1;
  }

  /** The elements that an access goes to. */
  elements(access: Access): Int32Array {
    return ints(this.buffers[access.buffer]);
  }

  /** What each lane of an access does: 0 is masked off, 1 touches an element, 2 is outside. */
  lanes(access: Access): Uint8Array {
    const buffer = this.buffers[access.buffer + 1];
    return new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength);
  }

  /** Which elements of an operand the program touches. */
  ofProgram(operand: number): Uint8Array | undefined {
    return this.touched.get(operand);
  }

  /** What all variables hold when a line has run, the last one set first. */
  variables(line: number): Variable[] {
    const found = new Map<string, Variable>();
    const lines = this.program?.lines ?? [];
    for (let k = line; k >= 0; k--) {
      if (lines[k]?.depth !== lines[line]?.depth) continue;
      for (const variable of lines[k].changed) if (!found.has(variable.name)) found.set(variable.name, variable);
    }
    return [...found.values()];
  }
}

export const kernelStore = (model: Model): KernelStore =>
  followed(model, new KernelStore(), "kernels.sync", ["kernels.steps", "kernels.launch", "kernels.program", "kernels.value", "kernels.cost", "kernels.users"]);
