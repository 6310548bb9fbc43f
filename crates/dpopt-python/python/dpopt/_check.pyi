from dataclasses import dataclass

@dataclass(frozen=True)
class Unforeseen:
    records: int
    shortened: int
    counts: dict[tuple[str, str], int]
    examples: dict[tuple[str, str], list[str]]
