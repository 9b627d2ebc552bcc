// Labels of things in the drawing: beside them, over as little else as can be.
import { test } from "node:test";
import assert from "node:assert/strict";
import { overlap, tipPlace, type Rect } from "../src/panels/graph/picture/tip";
import { random } from "./support/graphs";

const place = (thing: Rect, others: Rect[], size: [number, number] = [180, 40]): Rect => [...tipPlace(size, [800, 500], thing, others), ...size];

test("a label stands beside what it tells of, and in the window", () => {
  const thing: Rect = [300, 200, 90, 30];
  const label = place(thing, []);
  assert.equal(overlap(label, thing), 0);
  assert(Math.abs(label[1] + 20 - 215) < 1, "at its height");
  for (const corner of [[0, 0, 90, 30], [710, 470, 90, 30], [0, 470, 90, 30], [710, 0, 90, 30]] as Rect[]) {
    const [x, y, w, h] = place(corner, []);
    assert(x >= 0 && y >= 0 && x + w <= 800 && y + h <= 500, String(corner));
    assert.equal(overlap([x, y, w, h], corner), 0, String(corner));
  }
});

test("neighbours stay in sight wherever there is room for that", () => {
  // A column of boxes: above and below are neighbours, at the sides is room.
  const column: Rect[] = Array.from({ length: 9 }, (_, k) => [350, 20 + 54 * k, 90, 34]);
  for (const thing of column) {
    const label = place(thing, column.filter((other) => other !== thing));
    assert.equal(column.reduce((sum, box) => sum + overlap(label, box), 0), 0);
  }
  // Neighbours at both sides: it goes where they are not.
  const thing: Rect = [350, 230, 90, 34];
  const beside: Rect[] = [[450, 230, 300, 34], [40, 230, 300, 34]];
  assert.equal(beside.reduce((sum, box) => sum + overlap(place(thing, beside), box), 0), 0);
});

test("of scattered boxes it never covers more than the old place below the pointer did, on the whole", () => {
  const draw = random(3);
  let [now, before] = [0, 0];
  for (let round = 0; round < 200; round++) {
    const boxes: Rect[] = Array.from({ length: 30 }, () => [700 * draw(), 460 * draw(), 90, 34]);
    const [thing, ...others] = boxes;
    const [x, y] = [thing[0] + 45, thing[1] + 17];
    const old: Rect = [Math.max(4, Math.min(x + 14, 800 - 184)), y + 60 > 500 ? y - 50 : y + 18, 180, 40];
    const covered = (label: Rect): number => boxes.reduce((sum, box) => sum + overlap(label, box), 0);
    now += covered(place(thing, others));
    before += covered(old);
  }
  assert(now < 0.5 * before, `${now} of ${before}`);
});
