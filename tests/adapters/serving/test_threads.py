"""Eight threads load, evict and switch adapters of one base; ``make stress-adapters`` is longer."""

from __future__ import annotations

from pathlib import Path

from tests.adapters.serving.stress import stress


def test_eight_threads_load_evict_and_switch(tmp_path: Path) -> None:
    world, counts, failed = stress(tmp_path, 0, 8, seconds=60, most=12)
    assert not failed, "\n".join(failed)
    assert sum(counts.values()) == 8 * 12
    slots, memory = world.served.counts["slots"], world.served.counts["memory"]
    assert slots.misses > slots.evictions > 0 and memory.misses > 0
    assert len(world.served.slots) <= 4 and len(world.served.memory) <= 6
