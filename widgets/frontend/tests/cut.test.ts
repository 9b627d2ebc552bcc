// Names that are cut keep what tells them apart.
import { test } from "node:test";
import assert from "node:assert/strict";
import { shortened } from "../src/core/cut";

test("names of layers stay apart however short they are cut", () => {
  const names = Array.from({ length: 24 }, (_, k) => ["q", "k", "v"].map((part) => `model.decoder.transformer.layers.${k}.self_attention.${part}_proj.weight`)).flat();
  const cut = names.map((name) => shortened(name, 38));
  assert.equal(new Set(cut).size, names.length);
  assert.equal(cut[33], "model.dec…11.self_at…ntion.q_proj.weight");
  for (const name of ["resnetv17_stage3_conv12_fwd", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaab", "x".repeat(300)]) {
    for (const letters of [4, 9, 17]) {
      const text = shortened(name, letters);
      assert(text.includes("…") && text.length <= letters + 2 && name.endsWith(text.split("…").at(-1)!) && name.startsWith(text[0]), text);
    }
  }
  assert.equal(shortened("resnetv17_stage3_conv12_fwd", 27), "resnetv17_stage3_conv12_fwd");
});

test("words are cut at their end, and letters of two codes stay whole", () => {
  assert.equal(shortened("conv 3×3, 64 → 128, stride 2", 12), "conv 3×3, 64…");
  assert.equal(shortened("漢".repeat(20), 6), "漢漢漢…漢漢漢");
  assert.equal(shortened("🙂".repeat(20), 5), "🙂🙂🙂…🙂🙂");
});
