"""Products with rows of quantised numbers that stay packed, as files have them.

A weight is read once for a product, at the speed of memory, and never written out as floats. Blocks
are taken apart in registers; x stays as it is, or is rounded to bytes. One row of x meets rows of
the weight one by one, several meet panels of them. `machine` says what each processor has,
`layouts` where numbers lie in blocks; machine code depends on the format and on the machine, all
sizes stand in blocks of numbers. `floats` reads large matrices that are not packed the same way.
"""

from .bind import bind_grad, bind_grouped, bind_product, bind_rows, is_known

__all__ = ["bind_grad", "bind_grouped", "bind_product", "bind_rows", "is_known"]
