// One scope as a small graph of its own: its children, the ports in its frame, and the nets between them.
//
// A level holds one layer only: the forward nodes of a scope, or the gradients beside them, or updates. What runs
// between layers is drawn as a light link between two items and moves nothing.
//
// A level depends on the graph alone, never on which scopes are open. So does the order that is
// computed from it, and opening a scope can therefore never reshuffle what is already on the screen.

import type { GraphModel } from "../model/model";
import { Role } from "../model/roles";
import { WIDE } from "./wide";

/** Tensors that run together: the same source and the same set of targets within this level. */
export interface Net {
  source: number;
  targets: number[];
  /** Argument position at each target that is a node, opened or not; 0 at scopes and ports. */
  positions: number[];
  tensors: number[];
}

/**
 * Vertices are numbered children first, then ports into the scope, then ports out of it.
 * A port stands for the tensors that cross the frame together.
 */
export interface Level {
  scope: number;
  items: number[];
  /** Children and ports into the scope that the main computation does not run through: weights, what is made of them, arithmetic on shapes. */
  stored: boolean[];
  /** How many nodes each child stands for. */
  sizes: number[];
  inPorts: number[][];
  outPorts: number[][];
  nets: Net[];
}

const EXIT = -1;

/** Which children of a scope make up a level. */
export interface Part {
  scope: number;
  layer: number;
  items: number[];
  /** Whether lines lead in and out through the frame. */
  ports: boolean;
}

/** `arrival` says how far to the left tensors come in; ports are numbered in that order, then by first use. */
export function buildLevel(model: GraphModel, part: Part, arrival: (tensors: number[]) => number = () => 0): Level {
  const { firstTensor, firstConsumer, consumers, edgeTarget, edgePosition, edgeTensor, firstInput, nodeOf, scopes, layer } = model;
  const { scope, items } = part;
  const local = new Map<number, number>(); // node -> child that holds it
  const members: number[] = [];
  const stored = items.map((item, child) => {
    let onlyStored = true;
    const pending = [item];
    for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
      if (next < model.n) {
        if (layer[next] !== part.layer) continue;
        local.set(next, child);
        members.push(next);
        if (model.role(next) === Role.Main) onlyStored = false;
      } else {
        const { nodes, scopes: inner, twins } = scopes[next - model.n];
        for (const node of nodes) pending.push(node);
        for (const s of inner) pending.push(model.n + s);
        for (const s of twins) pending.push(model.n + s);
      }
    }
    return onlyStored && !model.isTwin(item);
  });
  members.sort((a, b) => a - b);

  const nets: Net[] = [];
  const bySignature = new Map<string, Net>();
  const add = (signature: string, source: number, targets: Map<number, number>, tensor: number): void => {
    let net = bySignature.get(signature);
    if (!net) {
      net = { source, targets: [...targets.keys()], positions: [...targets.values()], tensors: [] };
      bySignature.set(signature, net);
      nets.push(net);
    }
    net.tensors.push(tensor);
  };

  // Tensors made inside: to other children, and out through the frame.
  for (const node of members) {
    const source = local.get(node)!;
    if (isShared(model, node) && model.isTwin(items[source])) continue;
    for (let tensor = firstTensor[node]; tensor < firstTensor[node + 1]; tensor++) {
      const targets = new Map<number, number>();
      for (let c = firstConsumer[tensor]; c < firstConsumer[tensor + 1]; c++) {
        const edge = consumers[c];
        if (layer[edgeTarget[edge]] !== part.layer || model.hides(edge)) continue;
        const target = local.get(edgeTarget[edge]) ?? EXIT;
        if (target === EXIT && isShared(model, node)) continue;
        if (target === source || targets.has(target) || (target === EXIT && !part.ports)) continue;
        targets.set(target, target !== EXIT && model.nodeAt(items[target]) >= 0 ? edgePosition[edge] : 0);
      }
      if (!targets.size) continue;
      // A node with several results keeps them apart on the way out; scopes bundle theirs.
      const own = targets.has(EXIT) && model.nodeAt(items[source]) >= 0 ? tensor : "";
      add(`${source}>${[...targets.keys()].sort((a, b) => a - b).join()}:${own}`, source, targets, tensor);
    }
  }

  // Tensors that come from outside, once each, in the order in which they are first used.
  const incoming = new Map<number, Map<number, number>>();
  for (const node of members) {
    for (let edge = firstInput[node]; edge < firstInput[node + 1]; edge++) {
      const tensor = edgeTensor[edge];
      if (!part.ports || layer[nodeOf[tensor]] !== part.layer || model.hides(edge) || local.has(nodeOf[tensor])) continue;
      if (isShared(model, nodeOf[tensor])) continue;
      const target = local.get(node)!;
      let targets = incoming.get(tensor);
      if (!targets) incoming.set(tensor, (targets = new Map()));
      if (!targets.has(target)) targets.set(target, model.nodeAt(items[target]) >= 0 ? edgePosition[edge] : 0);
    }
  }
  const ancestors = new Set<number>();
  for (let s = scope; s >= 0; s = scopes[s].parent) ancestors.add(s);
  const entering: Net[] = [];
  for (const [tensor, targets] of incoming) {
    const origin = outermost(model, nodeOf[tensor], ancestors);
    const signature = `${origin}<${[...targets.keys()].sort((a, b) => a - b).join()}`;
    const before = nets.length;
    add(signature, 0, targets, tensor);
    if (nets.length > before) entering.push(nets[nets.length - 1]);
  }

  const readersOutside = (tensors: number[]): string => {
    const found = new Set<number>();
    for (const t of tensors) {
      for (let c = firstConsumer[t]; c < firstConsumer[t + 1]; c++) if (!local.has(edgeTarget[consumers[c]])) found.add(edgeTarget[consumers[c]]);
    }
    return [...found].sort((a, b) => a - b).join();
  };
  // Number the ports now that their count is known.
  const place = new Map(entering.map((net) => [net, arrival(net.tensors)]));
  entering.sort((a, b) => place.get(a)! - place.get(b)!);
  const inPorts = entering.map((net, k) => {
    net.source = items.length + k;
    stored.push(net.tensors.every((tensor) => model.role(nodeOf[tensor]) !== Role.Main));
    return net.tensors;
  });
  const leaving = nets.filter((net) => net.targets.includes(EXIT));
  const outPorts: number[][] = [];
  const shared = new Map<string, number>(); // where more go to the same place than may stand side by side
  for (const net of leaving) {
    const key = leaving.length > WIDE ? readersOutside(net.tensors) : "";
    const port = (key && shared.get(key)) || outPorts.push([]) - 1 + items.length + inPorts.length;
    if (key) shared.set(key, port);
    net.targets[net.targets.indexOf(EXIT)] = port;
    outPorts[port - items.length - inPorts.length].push(...net.tensors);
  }
  return { scope, items, stored, sizes: items.map((item) => (item < model.n ? 1 : scopes[item - model.n].size)), inPorts, outPorts, nets };
}

/** A constant of a gradient serves all gradients of the graph that need it, which says nothing about how they flow. */
function isShared(model: GraphModel, node: number): boolean {
  return model.layer[node] > 0 && model.kindOf(node) === "constant";
}

/** Equal for levels whose vertices and nets correspond one to one. */
export function signature({ stored, sizes, inPorts, outPorts, nets }: Level): string {
  const lines = nets.map(({ source, targets, positions }) => `${source}>${targets.map((v, k) => `${v}.${positions[k]}`).join()}`);
  return `${stored.map(Number).join("")} ${sizes.join()} ${inPorts.length} ${outPorts.length} ${lines.join(";")}`;
}

/** The largest scope around `node` that lies wholly outside the given chain of ancestors, or the node itself. */
function outermost(model: GraphModel, node: number, ancestors: Set<number>): number {
  let item = node;
  for (let s = model.scopeOf[node]; !ancestors.has(s); s = model.scopes[s].parent) item = model.n + s;
  return item;
}
