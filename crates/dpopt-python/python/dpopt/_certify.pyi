from dataclasses import dataclass

from .accounting import Statement

FROM_DATA: str

@dataclass(frozen=True)
class Certificate:
    certified: bool | None
    targets: tuple[float, float] | None
    gradient_norm: tuple[float, float]
    least_eigenvalue: tuple[float, float] | None
    failure: float
    guarantee: Statement
    rests_on: tuple[str, ...] = ()
