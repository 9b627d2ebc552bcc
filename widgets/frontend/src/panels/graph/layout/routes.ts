// Where lines leave and enter what they join: at the ports of open scopes, at the arguments of nodes.

import type { Block, Part } from "./parts";
import type { GraphModel } from "../model/model";
import { Role } from "../model/roles";
import { argumentsOf } from "../model/trace";

const PORT_STEP = 14;

export interface Route {
  tensor: number;
  weight: number;
  /** Distances from the centres of the two vertices. */
  start: number;
  stop: number;
}

/** The distinct lines of a net between two vertices: one, unless its tensors use different ports of an open scope. */
export function routes(model: GraphModel, part: Part, upper: number, lower: number, net: number, position: number): Route[] {
  const { level } = part.skeleton;
  const { tensors } = level.nets[net];
  const many = part.inner[upper] || part.inner[lower];
  const lowerItem = level.items[lower];
  const main = part.skeleton.spine?.entry[lower] ?? -1;
  const into = lower < level.items.length && model.nodeAt(lowerItem) >= 0 ? argumentOffset(model, lowerItem, position, part.w[lower], main) : 0;
  if (!many) return [{ tensor: tensors[0], weight: tensors.length, start: 0, stop: into }];
  const found = new Map<string, Route>();
  for (const tensor of tensors) {
    const start = portOffset(part.inner[upper]?.outPort, part.w[upper], tensor);
    const stop = part.inner[lower] ? portOffset(part.inner[lower].inPort, part.w[lower], tensor) : into;
    const key = `${start} ${stop}`;
    const known = found.get(key);
    if (known) known.weight++;
    else found.set(key, { tensor, weight: 1, start, stop });
  }
  return [...found.values()];
}

function portOffset(ports: Block["inPort"] | undefined, width: number, tensor: number): number {
  const port = ports?.get(tensor);
  return port ? port.x - width / 2 : 0;
}

/**
 * Arguments arrive side by side in their order. The main line of a level arrives in the middle, and so does the only
 * argument that is computed where no such line runs; weights stand beside it. Arguments from another layer are not
 * drawn as lines and take no room.
 */
function argumentOffset(model: GraphModel, item: number, position: number, width: number, main: number): number {
  const seen = new Set<number>(); // the same tensor twice is one line
  let own = 0;
  let middle = -1;
  let several = false;
  const layer = model.layer[model.nodeAt(item)];
  for (const argument of argumentsOf(model, item)) {
    const { tensor } = argument;
    const source = model.nodeOf[tensor];
    if (seen.has(tensor) || model.layer[source] !== layer) continue;
    if (argument.position === position) own = seen.size;
    if (main >= 0 ? argument.position === main : model.role(source) === Role.Main) {
      several = middle >= 0;
      middle = seen.size;
    }
    seen.add(tensor);
  }
  const step = Math.min(PORT_STEP, (0.7 * width) / seen.size);
  return (own - (middle >= 0 && !several ? middle : (seen.size - 1) / 2)) * step;
}
