"""Real data: the handwritten digits that scikit-learn carries, trained by `digits.py`."""

from __future__ import annotations

import pytest

pytest.importorskip("sklearn", reason="no scikit-learn: pip install -e '.[lab]'")


def test_the_digits_are_learnt_to_98_percent_of_held_out_images():
    from tests.support import digits  # which imports scikit-learn

    history = digits.main()
    assert history.epochs.rows == 30
    assert history.last()["val_accuracy"] >= 0.98
    assert history.last()["accuracy"] >= 0.99
    assert history.epochs["loss"][0] > 10 * history.last()["loss"]
