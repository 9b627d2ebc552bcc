"""From kernels to LLVM text."""
