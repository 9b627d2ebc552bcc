"""Random tensors: functions of seed, step and stream, a word an element or two."""
