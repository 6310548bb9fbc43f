from dataclasses import dataclass
from typing import Any

@dataclass(frozen=True)
class Unforeseen:
    records: int
    shortened: int
    counts: dict[tuple[str, str], int]
    examples: dict[tuple[str, str], list[str]]

class Checkable:
    def check_not_private(self, X: Any, y: Any = None, groups: Any = None) -> Unforeseen: ...
