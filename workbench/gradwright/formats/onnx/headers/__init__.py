"""An ONNX model as it lies in a file: its fields, what they tell, and the graph without weights."""
