"""The CUDA driver on host memory: the same calls, kernels in Triton's interpreter, and checks.

Reading order: ``interpret`` runs a kernel, ``memory`` keeps for each byte who wrote it, ``streams``
orders work, ``access`` looks at what a kernel reads and writes, ``driver`` is all of it together.
"""
