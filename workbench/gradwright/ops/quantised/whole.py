"""``gw.quant.quantize``: a whole model whose matrices lie in blocks of few bits."""

from __future__ import annotations

from typing import Any

from ...errors import GraphError
from ...op import maker


@maker("quant")
def quantize(model: Any, format: str = "q8_0", *, formats: dict[str, str] | None = None) -> Any:
    """A decoder with its matrices in blocks of few bits, and what each tensor lost by it.

    loss = √(Σ(q − x)²/Σx²), measured for each tensor

    Returns ``models.Quantized``: its ``model`` is a new decoder, ``tensors`` are its rows. Norms,
    biases and what no product of blocks takes stay float32. ``formats`` says otherwise for some
    weights, by name or by what they are: ``{"head": "q6_k", "layer0/q": "float32"}``. Where 256 do
    not divide a row, q4_k becomes q5_0, q5_k becomes q5_1 and q6_k becomes q8_0 (Gerganov et al.
    2023); where 32 do not, the tensor stays float32; its note says so.

    ``"nf4"`` and ``"nf4_double"``, whose scales are quantised, too, are the bases of QLoRA, with
    the bytes of bitsandbytes: 4.5 and 4.127 bits a number (Dettmers et al. 2023). They hold the
    matrices of layers; embedding and head stay as they are, unless ``formats`` says ``"head"``.

    Raises GraphError for a format that is not written, and for a model that has no matrices of its
    own.

    >>> import gradwright as gw
    >>> config = gw.models.DecoderConfig(vocabulary=8, width=32, heads=2, layers=1)
    >>> model = gw.models.Decoder(config)
    >>> found = gw.quant.quantize(model, "q4_0", formats={"embed": "q8_0"})
    >>> found.model.packed["embed"], found.model.packed["layer0/q"]
    ('q8_0', 'q4_0')
    """
    quantized = getattr(model, "quantized", None)
    if quantized is None:
        raise GraphError(
            f"a {type(model).__name__} is not quantized as a whole",
            need="a gw.models.Decoder",
            hint="gw.quant.quantize_ggml packs a tensor of a graph",
        )
    return quantized(format, formats or {})
