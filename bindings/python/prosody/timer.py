"""What a handler receives when a timer has come due."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class Timer:
    """A timer that has come due."""

    key: str
    time: datetime
