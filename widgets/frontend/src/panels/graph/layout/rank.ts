// Rows: which one each vertex of an acyclic graph stands in, so that lines run downwards and are short in total.
//
// The longest path gives a feasible start. Up to a size that real scopes hardly exceed, the network simplex of
// Gansner, Koutsofios, North and Vo (1993) then finds the rows with the least total length; beyond it, vertices
// move one at a time within the room that their neighbours leave.

const SIMPLEX_VERTICES = 1500;

export interface Arcs {
  vertexCount: number;
  tail: number[];
  head: number[];
  /** A flag for each that goes as close to its readers as it can. */
  late: Uint8Array;
}

export function assignRows(arcs: Arcs): Int32Array {
  const graph = new RankGraph(arcs);
  graph.longestPath();
  if (arcs.vertexCount <= SIMPLEX_VERTICES) graph.simplex();
  else graph.shorten();
  let top = Infinity;
  for (const row of graph.rank) top = Math.min(top, row);
  return graph.rank.map((row) => row - top);
}

class RankGraph {
  readonly rank: Int32Array;
  private readonly n: number;
  private readonly tail: number[];
  private readonly head: number[];
  private readonly late: Uint8Array;
  /** Arcs that only hold components together have length 0 and weight 0. */
  private readonly real: number;
  private readonly incident: number[][];
  private topological: number[] = [];

  constructor({ vertexCount, tail, head, late }: Arcs) {
    this.n = vertexCount;
    this.late = late;
    this.tail = [...tail];
    this.head = [...head];
    this.real = tail.length;
    this.rank = new Int32Array(vertexCount);
    this.incident = Array.from({ length: vertexCount }, () => []);
    for (let a = 0; a < this.real; a++) {
      this.incident[tail[a]].push(a);
      this.incident[head[a]].push(a);
    }
  }

  private length(a: number): number {
    return a < this.real ? 1 : 0;
  }

  private slack(a: number): number {
    return this.rank[this.head[a]] - this.rank[this.tail[a]] - this.length(a);
  }

  private other(a: number, v: number): number {
    return this.tail[a] === v ? this.head[a] : this.tail[a];
  }

  longestPath(): void {
    const waiting = new Int32Array(this.n);
    for (const v of this.head) waiting[v]++;
    const order: number[] = [];
    for (let v = 0; v < this.n; v++) if (!waiting[v]) order.push(v);
    for (let k = 0; k < order.length; k++) {
      const v = order[k];
      for (const a of this.incident[v]) {
        if (this.tail[a] !== v) continue;
        const w = this.head[a];
        this.rank[w] = Math.max(this.rank[w], this.rank[v] + 1);
        if (--waiting[w] === 0) order.push(w);
      }
    }
    this.topological = order;
  }

  /** Every vertex goes towards the side with more lines, from the bottom up, until nothing moves. */
  shorten(): void {
    for (let pass = 0, moved = true; moved && pass < 12; pass++) {
      moved = false;
      for (let k = this.n - 1; k >= 0; k--) {
        const v = this.topological[k];
        let low = 0;
        let high = Infinity;
        let pull = 0;
        for (const a of this.incident[v]) {
          if (this.tail[a] === v) {
            high = Math.min(high, this.rank[this.head[a]] - 1);
            pull++;
          } else {
            low = Math.max(low, this.rank[this.tail[a]] + 1);
            pull--;
          }
        }
        const best = pull > 0 || (this.late[v] && high < Infinity) ? high : pull < 0 ? low : this.rank[v];
        if (best !== this.rank[v]) moved = true;
        this.rank[v] = best;
      }
    }
  }

  simplex(): void {
    if (!this.n) return;
    this.connect();
    const inTree = this.tightTree();
    for (let step = 0; step < 4 * this.n; step++) {
      const tree = new RootedTree(this.n, this.incident, inTree, (a, v) => this.other(a, v));
      const leaving = this.mostNegative(tree, inTree);
      if (leaving < 0) return;
      this.exchange(tree, inTree, leaving);
    }
  }

  /** Joins the components with arcs that cost nothing. */
  private connect(): void {
    const seen = new Uint8Array(this.n);
    for (let v = 0; v < this.n; v++) {
      if (seen[v]) continue;
      if (v) {
        const [tail, head] = this.rank[0] <= this.rank[v] ? [0, v] : [v, 0];
        const a = this.tail.push(tail) - 1;
        this.head.push(head);
        this.incident[tail].push(a);
        this.incident[head].push(a);
      }
      const pending = [v];
      for (let at = pending.pop(); at !== undefined; at = pending.pop()) {
        if (seen[at]) continue;
        seen[at] = 1;
        for (const a of this.incident[at]) if (!seen[this.other(a, at)]) pending.push(this.other(a, at));
      }
    }
  }

  /** A spanning tree of arcs without slack, grown by moving the tree towards its nearest neighbour. */
  private tightTree(): Uint8Array {
    const inTree = new Uint8Array(this.tail.length);
    const member = new Uint8Array(this.n);
    const vertices = [0];
    member[0] = 1;
    for (let grown = 0; vertices.length < this.n; ) {
      for (; grown < vertices.length; grown++) {
        for (const a of this.incident[vertices[grown]]) {
          const w = this.other(a, vertices[grown]);
          if (member[w] || this.slack(a) !== 0) continue;
          member[w] = inTree[a] = 1;
          vertices.push(w);
        }
      }
      if (vertices.length === this.n) break;
      let nearest = -1;
      for (let a = 0; a < this.tail.length; a++) {
        if (member[this.tail[a]] === member[this.head[a]]) continue;
        if (nearest < 0 || this.slack(a) < this.slack(nearest)) nearest = a;
      }
      const move = member[this.tail[nearest]] ? this.slack(nearest) : -this.slack(nearest);
      for (const v of vertices) this.rank[v] += move;
      grown = 0;
    }
    return inTree;
  }

  /** The tree arc whose removal shortens the drawing most, or -1. */
  private mostNegative(tree: RootedTree, inTree: Uint8Array): number {
    const cut = new Int32Array(this.tail.length);
    let best = -1;
    for (let k = this.n - 1; k > 0; k--) {
      const v = tree.order[k];
      const arc = tree.parentArc[v];
      const down = this.tail[arc] === v; // the subtree is on the tail's side
      let value = arc < this.real ? 1 : 0;
      for (const a of this.incident[v]) {
        if (a === arc) continue;
        const same = (this.tail[a] === v) === down;
        const weight = a < this.real ? 1 : 0;
        value += same ? weight : -weight;
        if (inTree[a]) value += same ? -cut[a] : cut[a];
      }
      cut[arc] = value;
      if (value < 0 && (best < 0 || value < cut[best])) best = arc;
    }
    return best;
  }

  private exchange(tree: RootedTree, inTree: Uint8Array, leaving: number): void {
    const child = tree.parentArc[this.tail[leaving]] === leaving ? this.tail[leaving] : this.head[leaving];
    const childIsTail = child === this.tail[leaving];
    let entering = -1;
    for (let a = 0; a < this.tail.length; a++) {
      const tailInside = tree.inside(child, this.tail[a]);
      if (tailInside === tree.inside(child, this.head[a]) || tailInside === childIsTail) continue;
      if (entering < 0 || this.slack(a) < this.slack(entering)) entering = a;
    }
    const move = childIsTail ? -this.slack(entering) : this.slack(entering);
    for (let v = 0; v < this.n; v++) if (tree.inside(child, v)) this.rank[v] += move;
    inTree[leaving] = 0;
    inTree[entering] = 1;
  }
}

class RootedTree {
  /** Vertices in preorder; a subtree is a contiguous stretch of it. */
  readonly order: number[] = [];
  readonly parentArc: Int32Array;
  private readonly enter: Int32Array;
  private readonly size: Int32Array;

  constructor(n: number, incident: number[][], inTree: Uint8Array, other: (a: number, v: number) => number) {
    this.parentArc = new Int32Array(n).fill(-1);
    this.enter = new Int32Array(n);
    this.size = new Int32Array(n).fill(1);
    const pending = [0];
    for (let v = pending.pop(); v !== undefined; v = pending.pop()) {
      this.enter[v] = this.order.push(v) - 1;
      for (const a of incident[v]) {
        if (!inTree[a] || a === this.parentArc[v]) continue;
        this.parentArc[other(a, v)] = a;
        pending.push(other(a, v));
      }
    }
    for (let k = n - 1; k > 0; k--) {
      const v = this.order[k];
      this.size[other(this.parentArc[v], v)] += this.size[v];
    }
  }

  inside(root: number, v: number): boolean {
    return this.enter[v] >= this.enter[root] && this.enter[v] < this.enter[root] + this.size[root];
  }
}
