"""Text has no oracle among the array libraries."""

from __future__ import annotations

_WHY = "text: held against Python's own in test_texts.py"
ROWS: dict[str, object] = {}
ELSEWHERE = {
    "string_concat": _WHY,
    "string_split": _WHY,
    "string_normalizer": _WHY,
    "regex_full_match": _WHY,
    "label_encoder": _WHY,
    "to_number": "text: held against ONNX Runtime in tests/formats/test_onnx_valid.py",
    "tokenize": "held against ONNX Runtime in tests/formats/test_onnx_estimators.py",
    "tf_idf_vectorizer": "counts of n-grams: held against a count by hand in test_texts.py",
}
