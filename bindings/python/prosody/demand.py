"""Why an event is handled."""

import enum
from dataclasses import dataclass


class DemandKind(str, enum.Enum):
    """Why an event is handled."""

    NORMAL = "normal"
    FAILURE = "failure"


@dataclass(frozen=True)
class Demand:
    """Why an event is handled: for the first time, or again after a failure."""

    kind: DemandKind
    retry: int
