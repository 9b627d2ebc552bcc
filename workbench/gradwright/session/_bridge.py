"""Plan with updates, on top of one without."""

from __future__ import annotations

from typing import Any

from ..errors import ShapeError
from ..plan import Plan as _Plan


class Plan(_Plan):
    def __init__(self, targets, feeds, device, *, training, options, updates, commit_if):  # type: ignore
        every = [*targets, *updates.values(), *([] if commit_if is None else [commit_if])]
        super().__init__(every, feeds, device, training=training, options=options)
        self._updates, self._commit_if = dict(updates), commit_if
        self._handed = {*targets, *feeds}

    def run(self, env, values, observe=None):  # type: ignore
        with values.lock:
            for t in self.variables:
                if t not in env:
                    env[t] = values.array(t.node.name)
        super().run(env, observe)

    def commit(self, env, values, observe=None):  # type: ignore
        if self._commit_if is not None and not env[self._commit_if]:
            return False
        new: dict[str, Any] = {}
        for variable, value in self._updates.items():
            array = env[value]
            if value in self._handed or array.base is not None or not array.flags.c_contiguous:
                array = array.copy()
            if array.shape != variable.shape:
                raise ShapeError(
                    f"the update of {variable.name!r} has shape {array.shape}",
                    need=str(variable.spec),
                )
            array.flags.writeable = False
            new[variable.name] = array
        values.commit(new)
        return True
