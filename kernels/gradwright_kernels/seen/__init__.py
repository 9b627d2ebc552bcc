"""Kernels looked into: which program touches which element, and what it computes, line by line.

Reading order: ``tracing`` notes each access of a launch, ``lines`` what a program computes,
``launch`` is all that is known of one launch, ``cost`` what it takes on a GPU, ``steps`` finds the
launches of a graph, ``check`` holds an op's kernel against its reference.
"""
