// Small and large graphs for the tests, all made here and all the same on every run.
import { KINDS, type GraphSpec, type Kind } from "../../src/panels/graph/model/wire";

export interface Plain {
  name: string;
  op?: string;
  kind?: Kind;
  inputs?: string[];
  spec?: string;
  /** The node whose gradient it is, or null for another node of the derived layer. */
  of?: string | null;
}

/** The wire format of a graph in which every node has one result. */
export function specOf(nodes: Plain[], name = "test"): GraphSpec {
  const index = new Map(nodes.map((node, i) => [node.name, i]));
  const calls = [...new Set(nodes.map((node) => node.op ?? "op"))];
  const specs = [...new Set(nodes.map((node) => node.spec ?? "f32[B, 8]"))];
  const edges = nodes.flatMap((node, i) => (node.inputs ?? []).flatMap((input, k) => [index.get(input)!, i, k]));
  const int32 = (values: number[]): DataView => new DataView(Int32Array.from(values).buffer);
  return {
    version: 1,
    name,
    names: nodes.map((node) => node.name),
    calls,
    ops: calls,
    categories: calls.map(() => "math"),
    opens: calls.map((op) => op.startsWith("open")),
    specs,
    call: int32(nodes.map((node) => calls.indexOf(node.op ?? "op"))),
    kind: new DataView(Uint8Array.from(nodes, (node) => KINDS.indexOf(node.kind ?? "array")).buffer),
    first_tensor: int32([...nodes.keys(), nodes.length]),
    spec: int32(nodes.map((node) => specs.indexOf(node.spec ?? "f32[B, 8]"))),
    edges: int32(edges),
    origin: int32(nodes.map((node) => (node.of ? index.get(node.of)! : -1))),
    derived: new DataView(Uint8Array.from(nodes, (node) => (node.of === undefined ? 0 : 1)).buffer),
  };
}

export function random(seed: number): () => number {
  let state = seed >>> 0;
  return () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 4294967296;
}

/** Two dense layers, softmax and a loss. */
export function classifier(): Plain[] {
  return [
    { name: "x", op: "placeholder", kind: "placeholder", spec: "f32[B, 64]" },
    { name: "t", op: "placeholder", kind: "placeholder", spec: "i64[B]" },
    { name: "hidden/w", op: "variable", kind: "variable", spec: "f32[64, 32]" },
    { name: "hidden/b", op: "variable", kind: "variable", spec: "f32[32]" },
    { name: "hidden/matmul", op: "matmul", inputs: ["x", "hidden/w"], spec: "f32[B, 32]" },
    { name: "hidden/add", op: "add", inputs: ["hidden/matmul", "hidden/b"], spec: "f32[B, 32]" },
    { name: "hidden/relu", op: "relu", inputs: ["hidden/add"], spec: "f32[B, 32]" },
    { name: "w2", op: "variable", kind: "variable", spec: "f32[32, 10]" },
    { name: "b2", op: "variable", kind: "variable", spec: "f32[10]" },
    { name: "matmul", op: "matmul", inputs: ["hidden/relu", "w2"], spec: "f32[B, 10]" },
    { name: "add", op: "add", inputs: ["matmul", "b2"], spec: "f32[B, 10]" },
    { name: "p", op: "softmax", inputs: ["add"], spec: "f32[B, 10]" },
    { name: "loss", op: "sparse_softmax_cross_entropy", inputs: ["t", "add"], spec: "f32[]" },
  ];
}

/** Transformer blocks in nested scopes, or flat, with residual connections and parameters. */
export function transformer(size: number, scopes = true): Plain[] {
  const nodes: Plain[] = [{ name: "x", op: "placeholder", kind: "placeholder" }];
  let before = "x";
  for (let block = 0; nodes.length < size; block++) {
    const scope = (inner: string): string => (scopes ? `layer${block}/${inner}/` : `layer${block}_${inner}_`);
    const at = (prefix: string, name: string, inputs: string[] = []): string => {
      nodes.push({ name: prefix + name, op: name, kind: inputs.length ? "array" : "variable", inputs });
      return prefix + name;
    };
    const a = scope("attention");
    const norm = at(a, "norm", [before]);
    const [q, k, v] = ["q", "k", "v"].map((head) => at(a, `${head}_proj`, [norm, at(a, `w${head}`)]));
    const weights = at(a, "softmax", [at(a, "scores", [q, k])]);
    const attended = at(a, "out", [at(a, "mix", [weights, v]), at(a, "wo")]);
    const residual = at(scopes ? `layer${block}/` : `layer${block}_`, "add", [before, attended]);
    const m = scope("mlp");
    const up = at(m, "up", [at(m, "norm", [residual]), at(m, "w1")]);
    const down = at(m, "down", [at(m, "gelu", [up]), at(m, "w2")]);
    before = at(scopes ? `layer${block}/` : `layer${block}_`, "add_1", [residual, down]);
  }
  return nodes;
}

/** Random lines, mostly short, with a few that skip far ahead. */
export function tangle(size: number, seed: number, skip = 0.05): Plain[] {
  const next = random(seed);
  return Array.from({ length: size }, (_, i) => {
    const inputs = new Set<string>();
    for (let k = 0; i > 0 && k < 1 + Math.floor(next() * 2); k++) {
      const span = next() < skip ? Math.min(i, 200) : Math.min(i, 12);
      inputs.add(`n${i - 1 - Math.floor(next() * span)}`);
    }
    return { name: `n${i}`, inputs: [...inputs] };
  });
}

/** An encoder and a decoder joined by skip connections, as in a U-Net. */
export function ladder(depth: number): Plain[] {
  const nodes: Plain[] = [{ name: "x", kind: "placeholder" }];
  let at = "x";
  for (let d = 0; d < depth; d++) {
    nodes.push({ name: `w${d}`, kind: "variable" }, { name: `down${d}`, inputs: [at, `w${d}`] }, { name: `pool${d}`, inputs: [`down${d}`] });
    at = `pool${d}`;
  }
  for (let d = depth - 1; d >= 0; d--) {
    nodes.push({ name: `up${d}`, inputs: [at] }, { name: `join${d}`, inputs: [`up${d}`, `down${d}`] });
    at = `join${d}`;
  }
  return nodes;
}

/** A chain of layers and its backward pass, which needs each forward result again. */
export function backward(depth: number): Plain[] {
  const nodes: Plain[] = [{ name: "x", kind: "placeholder" }];
  let at = "x";
  for (let d = 0; d < depth; d++) {
    nodes.push({ name: `w${d}`, kind: "variable" }, { name: `matmul${d}`, inputs: [at, `w${d}`] }, { name: `relu${d}`, inputs: [`matmul${d}`] });
    at = `relu${d}`;
  }
  nodes.push({ name: "loss", inputs: [at] });
  at = "loss";
  for (let d = depth - 1; d >= 0; d--) {
    nodes.push({ name: `mask${d}`, inputs: [at, `matmul${d}`] });
    nodes.push({ name: `dw${d}`, inputs: [d ? `relu${d - 1}` : "x", `mask${d}`] });
    nodes.push({ name: `dx${d}`, inputs: [`mask${d}`, `w${d}`] });
    at = `dx${d}`;
  }
  return nodes;
}

/**
 * The gradient of the last node with respect to all parameters, as reverse mode builds it: for each node `fan` nodes,
 * and one that sums where a result is used more than once.
 */
export function differentiated(nodes: Plain[], fan = 2, prefix = "grad/loss"): Plain[] {
  const out = [...nodes];
  const cotangents = new Map<string, string[]>([[nodes[nodes.length - 1].name, []]]);
  for (const node of [...nodes].reverse()) {
    const parts = cotangents.get(node.name);
    if (!parts || (!node.inputs?.length && parts.length < 2)) continue;
    const at = `${prefix}/${node.name}`;
    let arrived = parts[0];
    if (parts.length !== 1) {
      arrived = `${at}/${parts.length ? "add" : "ones_like"}`;
      out.push({ name: arrived, op: parts.length ? "add" : "ones_like", of: node.name, inputs: parts.length ? parts : [node.name], spec: node.spec });
    }
    (node.inputs ?? []).forEach((input, k) => {
      let last = arrived;
      for (let step = 0; step < fan; step++) {
        const name = `${at}/step_${k}_${step}`;
        out.push({ name, op: "mul", of: node.name, inputs: step ? [last] : [last, input], spec: node.spec });
        last = name;
      }
      cotangents.set(input, [...(cotangents.get(input) ?? []), last]);
    });
  }
  return out;
}
