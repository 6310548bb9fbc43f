from collections.abc import Callable, Sequence
from dataclasses import dataclass

CONFIDENCE: float
RESAMPLED: int

@dataclass(frozen=True)
class Rate:
    predicted: float
    measured: float
    interval: tuple[float, float]
    at: tuple[float, ...]
    errors: tuple[float, ...]
    against: tuple[str, ...]
    @property
    def passes(self) -> bool: ...

def verify_rate(
    run: Callable[[float, int], float],
    at: Sequence[float],
    *,
    predicted: float,
    tolerance: float,
    upper: bool = False,
    seeds: int = 20,
    width: float | None = None,
    bound: Callable[[float], float] | None = None,
    floor: Callable[[float], float] | None = None,
) -> Rate: ...
