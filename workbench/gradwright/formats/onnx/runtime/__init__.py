"""ONNX Runtime beside us."""
