"""Files of models: what kind a file is, what its header says, where its tensors lie, what reads it.

A folder a format; :mod:`.registry` finds the one that a file is of, :mod:`.source` is how all of
them look at files, and :mod:`.foreign` how nodes of another world become ops.
"""
