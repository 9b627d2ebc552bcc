// What a drawing opens with: as much as stays readable, in the order in which it is read.

import type { GraphModel } from "../model/model";

/** So many boxes, and frames around them, are seen at a glance, most of them at a size that can be read. */
const BUDGET = 32;
/** So many scopes that are alike open together; of more, the first speaks for the others. */
const TOGETHER = 2;

/**
 * Scopes to open at first: level by level, in the order of creation, while the forward drawing stays within `budget`
 * items. Scopes that are alike open together where they are few, else the first of them.
 */
export function openAtFirst(model: GraphModel, budget = BUDGET): number[] {
  const forward = (scope: number): number[] => model.members(scope).filter((item) => !model.isUpdate(item));
  const open: number[] = [];
  let visible = forward(0).length;
  for (let level = [0]; level.length; ) {
    const below: number[] = [];
    for (const around of level) {
      const alike = new Map<string, number[]>();
      for (const item of forward(around)) {
        if (item < model.n || model.scopes[item - model.n].kind === "card") continue;
        const inside = insideOf(model, item - model.n);
        alike.set(inside, [...(alike.get(inside) ?? []), item - model.n]);
      }
      for (const scopes of alike.values()) {
        const more = forward(scopes[0]).length;
        const all = scopes.length <= TOGETHER && visible + scopes.length * more <= budget;
        const count = all ? scopes.length : Number(visible + more <= budget);
        visible += count * more;
        open.push(...scopes.slice(0, count));
        below.push(...scopes.slice(0, count));
      }
    }
    level = below;
  }
  return open;
}

/** The same for scopes that hold the same ops, and scopes of the same sizes. */
function insideOf(model: GraphModel, scope: number): string {
  if (model.scopes[scope].like >= 0) return `like ${model.scopes[scope].like}`;
  return model.members(scope).map((item) => (item < model.n ? model.op(item) : model.scopes[item - model.n].size)).join();
}
