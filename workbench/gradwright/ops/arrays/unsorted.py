"""Segments whose numbers come in any order; slices with a negative number are left out."""

from __future__ import annotations

from ...op import Autocast
from .segments import _Max, _Min, _Prod, _Root, _Shared, _Sum, _Unsorted


class UnsortedSegmentSum(_Unsorted, _Sum):
    """Sums of the slices of each segment; slices with a negative number are left out.

    y[s, …] = Σ₍ᵢ: segment_ids[i] = s₎ x[i, …]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.unsorted_segment_sum(g.constant([1, 2, 3]), [1, -1, 1], 2, name="y")
    >>> g.output({}, y)["y"].tolist()
    [0, 4]
    """


class UnsortedSegmentMean(_Unsorted, _Shared):
    """Means of the slices of each segment; an empty segment gives 0.

    y[s, …] = Σ₍ᵢ: segment_ids[i] = s₎ x[i, …] / n

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.unsorted_segment_mean(g.constant([1.0, 2.0, 3.0]), [1, -1, 1], 2, name="y")
    >>> g.output({}, y)["y"].tolist()
    [0.0, 2.0]
    """

    autocast = Autocast.SUM


class UnsortedSegmentSqrtN(_Unsorted, _Root):
    """Sums of the slices of each segment, divided by the square root of their number.

    y[s, …] = Σ₍ᵢ: segment_ids[i] = s₎ x[i, …] / √n

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.unsorted_segment_sqrt_n(g.constant([1.0] * 4), [0, 0, 0, 0], 1, name="y")
    >>> g.output({}, y)["y"].tolist()
    [2.0]
    """


class UnsortedSegmentMax(_Unsorted, _Max):
    """Largest elements of each segment; equal ones share the gradient.

    y[s, …] = max₍ᵢ: segment_ids[i] = s₎ x[i, …]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.unsorted_segment_max(g.constant([1.0, 2.0, 3.0]), [1, 0, 1], 2, name="y")
    >>> g.output({}, y)["y"].tolist()
    [2.0, 3.0]
    """


class UnsortedSegmentMin(_Unsorted, _Min):
    """Smallest elements of each segment; equal ones share the gradient.

    y[s, …] = min₍ᵢ: segment_ids[i] = s₎ x[i, …]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.unsorted_segment_min(g.constant([1.0, 2.0, 3.0]), [1, 0, 1], 2, name="y")
    >>> g.output({}, y)["y"].tolist()
    [2.0, 1.0]
    """


class UnsortedSegmentProd(_Unsorted, _Prod):
    """Products of the slices of each segment; an empty segment gives 1.

    y[s, …] = Π₍ᵢ: segment_ids[i] = s₎ x[i, …]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.unsorted_segment_prod(g.constant([2, 3, 4]), [1, 2, 1], 3, name="y")
    >>> g.output({}, y)["y"].tolist()
    [1, 8, 3]
    """
