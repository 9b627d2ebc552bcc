"""Machine code for the CPU: kernels generated from the fusion IR, compiled by LLVM."""
