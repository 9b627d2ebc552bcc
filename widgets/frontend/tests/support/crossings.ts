// Crossings of drawn lines, counted alike for our scenes and for the output of `dot -Tplain`.
import { spawnSync } from "node:child_process";
import { PieceFlag, placesOf, type Scene } from "../../src/panels/graph/layout/scene";
import type { GraphModel } from "../../src/panels/graph/model/model";
import { itemSize, describe } from "../../src/panels/graph/model/describe";

type Point = [number, number];
export interface Line {
  from: number;
  to: number;
  points: Point[];
}

const STEPS = 8;

function bezier(a: Point, b: Point, c: Point, d: Point): Point[] {
  return Array.from({ length: STEPS }, (_, i): Point => {
    const t = (i + 1) / STEPS;
    const u = 1 - t;
    const mix = (k: 0 | 1): number => u * u * u * a[k] + 3 * u * u * t * b[k] + 3 * u * t * t * c[k] + t * t * t * d[k];
    return [mix(0), mix(1)];
  });
}

/** One line per edge of a flat graph, followed through the bends it shares with other edges. */
export function linesOfScene(scene: Scene): Line[] {
  const pieceInto = new Map<number, number[]>();
  scene.pieceTo.forEach((joint, p) => pieceInto.set(joint, [...(pieceInto.get(joint) ?? []), p]));
  const lines: Line[] = [];
  for (const to of placesOf(scene).keys()) {
    for (const last of pieceInto.get(to) ?? []) {
      const chain = [last];
      while (scene.pieceFrom[chain[0]] < 0) chain.unshift(pieceInto.get(scene.pieceFrom[chain[0]])![0]);
      const points: Point[] = [];
      for (const p of chain) {
        const [x0, y0, y1, x1, y2, y3] = scene.pieces.subarray(6 * p, 6 * p + 6);
        const middle = (y1 + y2) / 2;
        if (scene.pieceFlags[p] & PieceFlag.Bus) points.push([x0, y0], [x0, y1], [x1, y1], [x1, y3]);
        else points.push([x0, y0], [x0, y1], ...bezier([x0, y1], [x0, middle], [x1, middle], [x1, y2]), [x1, y3]);
      }
      lines.push({ from: scene.pieceFrom[chain[0]], to, points });
    }
  }
  return lines;
}

/** The lines that Graphviz draws for the same boxes, or undefined where it is not installed. */
export function linesOfDot(model: GraphModel): Line[] | undefined {
  const text = ["digraph { node [shape=box fixedsize=true];"];
  for (let i = 0; i < model.n; i++) {
    const { width, height } = itemSize(describe(model, i));
    text.push(`n${i} [width=${width / 72} height=${height / 72}];`);
  }
  const seen = new Set<string>();
  for (let e = 0; e < model.edgeTarget.length; e++) {
    const edge = `n${model.nodeOf[model.edgeTensor[e]]} -> n${model.edgeTarget[e]};`;
    if (!seen.has(edge)) text.push(edge);
    seen.add(edge);
  }
  const run = spawnSync("dot", ["-Tplain"], { input: `${text.join("\n")}\n}`, encoding: "utf8", maxBuffer: 1 << 28 });
  if (run.error || run.status !== 0) return undefined;
  const lines: Line[] = [];
  for (const row of run.stdout.replaceAll("\\\n", "").split("\n")) {
    const words = row.split(" ");
    if (words[0] !== "edge") continue;
    const count = Number(words[3]);
    const points = Array.from({ length: count }, (_, k): Point => [Number(words[4 + 2 * k]), Number(words[5 + 2 * k])]);
    const sampled: Point[] = [points[0]];
    for (let k = 0; k + 3 < points.length; k += 3) sampled.push(...bezier(points[k], points[k + 1], points[k + 2], points[k + 3]));
    lines.push({ from: Number(words[1].slice(1)), to: Number(words[2].slice(1)), points: sampled });
  }
  return lines;
}

/** Pairs of lines without a common end that cross at least once. */
export function countCrossings(lines: Line[]): number {
  const boxes = lines.map(({ points }) => {
    const xs = points.map(([x]) => x);
    const ys = points.map(([, y]) => y);
    return [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  });
  let total = 0;
  for (let i = 0; i < lines.length; i++) {
    for (let j = i + 1; j < lines.length; j++) {
      const [a, b] = [lines[i], lines[j]];
      if (a.from === b.from || a.to === b.to || a.from === b.to || a.to === b.from) continue;
      const [p, q] = [boxes[i], boxes[j]];
      if (p[0] > q[1] || q[0] > p[1] || p[2] > q[3] || q[2] > p[3]) continue;
      if (cross(a.points, b.points)) total++;
    }
  }
  return total;
}

function cross(a: Point[], b: Point[]): boolean {
  for (let i = 0; i + 1 < a.length; i++) {
    for (let j = 0; j + 1 < b.length; j++) {
      const [p, q, r, s] = [a[i], a[i + 1], b[j], b[j + 1]];
      if (side(p, q, r) * side(p, q, s) < 0 && side(r, s, p) * side(r, s, q) < 0) return true;
    }
  }
  return false;
}

function side(p: Point, q: Point, r: Point): number {
  return (q[0] - p[0]) * (r[1] - p[1]) - (q[1] - p[1]) * (r[0] - p[0]);
}
