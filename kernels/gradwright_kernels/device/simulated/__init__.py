"""The CUDA driver on host memory: the same calls, kernels in Triton's interpreter, and checks."""
