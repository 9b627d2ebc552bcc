"""The generator: what a fused group computes, as readable Triton.

The kernel IR of `gradwright.fuse` becomes machine code on the CPU by LLVM text, and here Triton
text: functions of elements (``elements``, traced by ``number``), how loops become programs
(``tiles``), the text of one kernel (``emit``, ``memory``), all launches of a group (``generated``).
Nothing here runs on a GPU: a device takes the launches.
"""
