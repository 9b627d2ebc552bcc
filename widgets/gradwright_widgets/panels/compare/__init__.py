"""Our nodes beside those of ONNX Runtime."""
