"""External data: the tensors of a model that lie in files beside it, mapped and written."""
