// Graphviz is the judge of the layout: our lines may cross at most half as often again as those of `dot`.
import { test } from "node:test";
import assert from "node:assert/strict";
import { LayoutEngine } from "../src/panels/graph/layout/engine";
import { GraphModel } from "../src/panels/graph/model/model";
import { countCrossings, linesOfDot, linesOfScene } from "./support/crossings";
import { backward, classifier, ladder, specOf, tangle, transformer, type Plain } from "./support/graphs";

const flat = (nodes: Plain[]): Plain[] =>
  nodes.map((node) => ({ ...node, name: node.name.replaceAll("/", "_"), inputs: node.inputs?.map((i) => i.replaceAll("/", "_")) }));

const corpus: [string, Plain[]][] = [
  ["classifier", flat(classifier())],
  ["transformer, 60 nodes", transformer(60, false)],
  ["transformer, 300 nodes", transformer(300, false)],
  ["ladder", ladder(8)],
  ["backward pass", backward(6)],
  ["tangle of 40", tangle(40, 1)],
  ["tangle of 100", tangle(100, 2)],
  ["tangle of 200, few skips", tangle(200, 3, 0.01)],
];

for (const [name, nodes] of corpus) {
  const model = new GraphModel(specOf(nodes));
  const reference = linesOfDot(model);
  const skip = reference ? false : process.env.CI ? false : "Graphviz's dot is not installed";
  test(`crossings of ${name}`, { skip }, () => {
    assert(reference, "CI needs Graphviz's dot");
    const ours = countCrossings(linesOfScene(new LayoutEngine(model).layout([])));
    const theirs = countCrossings(reference);
    if (process.env.VERBOSE) console.log(`${name}: ${ours} crossings, dot ${theirs}`);
    assert(ours <= 1.5 * theirs, `${ours} crossings, dot has ${theirs}`);
  });
}
