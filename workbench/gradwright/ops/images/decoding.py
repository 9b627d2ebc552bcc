"""Images out of the bytes of a file."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import DTypeError, GraphError
from ...op import Cotangent, ErrorSample, NotDifferentiable, OnnxRule, Op, Sample, attr
from ...spec import Dim, TensorSpec

FORMATS = ("BMP", "JPEG", "JPEG2000", "PNG", "PPM", "TIFF", "WEBP")
"""What ONNX's operator reads, as Pillow calls it."""


class DecodeImage(Op):
    """The image that the bytes of a file hold: BMP, JPEG, JPEG 2000, PNG, PNM, TIFF or WebP.

    y[h, w, c] = channel c of the pixel in row h and column w

    x: u8[n] -> y: u8[H, W, C], channels last, as ``pixel_format`` says. Pillow decodes it: ``pip
    install 'gradwright[images]'``. Raises DTypeError for what is no vector of bytes, GraphError
    where Pillow is missing, or bytes are no image, or one of more than 179 million pixels (ONNX
    ImageDecoder-20).

    >>> import gradwright as gw, numpy as np
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", ("n",), "uint8")
    >>> y = gw.image.decode_image(x, name="y")
    >>> g.output({"x": np.frombuffer(b"P5 2 1 255 AZ", "uint8")}, y)["y"].tolist()
    [[[65, 65, 65], [90, 90, 90]]]
    """

    namespace = "image"
    pixel_format: str = attr("RGB", doc="Channels.", choices=("RGB", "BGR", "Grayscale"))
    onnx = OnnxRule("ImageDecoder", since=20)

    def infer(self, x: TensorSpec) -> TensorSpec:
        if x.dtype != np.uint8 or x.rank != 1:
            raise DTypeError(f"an image is decoded from the bytes of a file, not {x}", need="u8[n]")
        sizes = (Dim.fresh("height"), Dim.fresh("width"))
        return TensorSpec((*sizes, 1 if self.pixel_format == "Grayscale" else 3), x.dtype)

    def forward(self, x: Any) -> Any:
        try:
            from PIL import Image
        except ImportError:
            raise GraphError(
                "Pillow is not installed, which decodes images",
                hint="pip install 'gradwright[images]'",
            ) from None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", Image.DecompressionBombWarning)
                image = Image.open(io.BytesIO(x.tobytes()), formats=FORMATS)
                pixels = np.array(image.convert("L" if self.pixel_format == "Grayscale" else "RGB"))
        except (OSError, ValueError, SyntaxError, Warning, Image.DecompressionBombError) as error:
            raise GraphError(
                f"{x.size:,} bytes are no image: {error}", need=", ".join(FORMATS)
            ) from None
        if self.pixel_format == "Grayscale":
            return pixels[:, :, None]
        return pixels[:, :, ::-1].copy() if self.pixel_format == "BGR" else pixels

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (NotDifferentiable("bytes have no gradient"),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        pixels = rng.integers(0, 256, (2, 3, 3), np.uint8)
        colours = np.frombuffer(b"P6 3 2 255 " + pixels.tobytes(), np.uint8)
        yield Sample((colours,))
        yield Sample((colours,), {"pixel_format": "BGR"})
        grey = np.frombuffer(b"P5 3 2 255 " + pixels[..., 0].tobytes(), np.uint8)
        yield Sample((grey,), {"pixel_format": "Grayscale"})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((4,)),), {}, "the bytes of a file")
        yield ErrorSample((TensorSpec((4, 2), "uint8"),), {}, "the bytes of a file")
