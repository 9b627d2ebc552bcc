// Where gradients stand: each in the row of its node, and in each row in the order of their nodes, so that the lane
// reads like the level beside it, turned round. Bends follow the lines whose gradients they carry.

import type { Drawn } from "./parts";
import type { GraphModel } from "../model/model";
import type { Guide } from "./order";
import type { Skeleton } from "./skeleton";

/** Vertices of the level that the gradients belong to, rows of the lane, and both as one text. */
export function laneRows(model: GraphModel, main: Drawn, items: number[]): { partners: number[]; rowOf: number[]; places: string[] } {
  const { level, rank, rankCount } = main.skeleton;
  const vertexOf = new Map(level.items.map((item, v) => [item, v]));
  const partners = items.map((item) => vertexOf.get(model.scopes[item - model.n].of)!);
  return {
    partners,
    rowOf: partners.map((v) => rankCount - 1 - rank[v]),
    places: partners.map((v) => `${rank[v]}.${main.ordering.position[v]}`),
  };
}

export function laneGuide(main: Drawn, lane: Skeleton, partners: number[]): Guide {
  const { vertexCount, segments, level, rank, rows, realCount } = lane;
  const { position } = main.ordering;
  const trunks = trunksOf(main.skeleton);
  const place = new Float64Array(vertexCount);
  const fixed = new Uint8Array(vertexCount);
  partners.forEach((partner, v) => {
    place[v] = position[partner];
    fixed[v] = 1;
  });
  const beside = (v: number): number | undefined => partners[v];
  // Segments come in the order in which a line runs, so the vertex before a bend has its place already.
  for (let s = 0; s < segments.count; s++) {
    const bend = segments.lower[s];
    if (bend < realCount) continue;
    const { source, targets } = level.nets[segments.net[s]];
    const row = main.skeleton.rankCount - rows[rank[bend]];
    const a = beside(source);
    const trunk = targets.map((target) => trunks.get(`${beside(target)} ${a} ${row}`)).find((v) => v !== undefined);
    place[bend] = trunk === undefined ? place[segments.upper[s]] : position[trunk];
  }
  // Ports stand where their first line ends.
  for (const { source, targets } of level.nets) {
    if (source >= level.items.length) place[source] = place[targets[0]];
    for (const target of targets) if (target >= level.items.length) place[target] = place[source];
  }
  return { place, fixed };
}

/** The bend in a row of the line from one vertex to another, by `source target row`. */
function trunksOf({ segments, realCount, rank, level }: Skeleton): Map<string, number> {
  const bends = new Map<number, number[]>();
  for (let s = 0; s < segments.count; s++) {
    if (segments.lower[s] < realCount) continue;
    const list = bends.get(segments.net[s]);
    if (list) list.push(segments.lower[s]);
    else bends.set(segments.net[s], [segments.lower[s]]);
  }
  const out = new Map<string, number>();
  for (const [net, list] of bends) {
    const { source, targets } = level.nets[net];
    for (const target of targets) for (const bend of list) if (rank[bend] < rank[target]) out.set(`${source} ${target} ${rank[bend]}`, bend);
  }
  return out;
}
