"""First values of low-rank adapters: arrays in, arrays out, a file a method."""
