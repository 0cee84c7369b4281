"""``flow``: a call that runs once the works it needs are over. Like all builders a value; it does nothing by itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from windlass.errors import ConfigError
from windlass.handles.results import Read
from windlass.workflows.signature import Signature
from windlass.workflows.work import Composed, Work, as_work, not_work, show_works

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Flow(Composed[R_co]):
    """A call and what it needs: the needed works first, all in parallel, then the call, with its own arguments."""

    kind = "flow"

    def __init__(self, parent: Signature[R_co], needs: Iterable[Work[Any]]) -> None:
        self.parent, self.needs = parent, tuple(needs)
        if as_work(parent, "the parent of the flow").kind != "call":
            raise ConfigError(f"flow(): the parent is {parent!r}; give one call, such as task.si(...)")
        for place, need in enumerate(self.needs, 1):
            if not isinstance(need, Work):
                raise not_work(need, f"need {place} of the flow")

    def parts(self) -> Iterable[Work[Any]]:
        return *self.needs, self.parent

    def reader(self) -> Read:
        return self.parent.reader()

    def __repr__(self) -> str:
        return f"flow({self.parent!r}, needs=[{show_works(self.needs)}])"


def flow(parent: Signature[R], needs: Iterable[Work[Any]] = ()) -> Flow[R]:
    """The works it needs in parallel, then ``parent``, which finds their values in ``current().results``."""
    return Flow(parent, needs)
