from dataclasses import dataclass
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._dpopt import Event

__all__ = [
    "Statement", "account", "attacker", "delta", "epsilon", "from_dp_accounting", "noise_multiplier", "steps", "to_dp_accounting",
]  # fmt: skip

#: "replace-one", "add-remove" or "zero-out".
_Adjacency = str
_Over = Literal["clip", "sensitivity"]

@dataclass(frozen=True)
class Statement:
    epsilon: float
    delta: float
    adjacency: str
    accountant: str
    event: Event

def account(event: Event, *, delta: float, adjacency: _Adjacency, accountant: str = "auto") -> Statement: ...
def epsilon(event: Event, *, delta: float, adjacency: _Adjacency, accountant: str = "auto") -> float: ...
@overload
def delta(event: Event, *, epsilon: float, adjacency: _Adjacency, accountant: str = "auto") -> float: ...
@overload
def delta(event: Event, *, epsilon: ArrayLike, adjacency: _Adjacency, accountant: str = "auto") -> NDArray[np.float64]: ...
@overload
def attacker(event: Event, *, false_positive_rate: float, adjacency: _Adjacency, accountant: str = "auto") -> float: ...
@overload
def attacker(event: Event, *, false_positive_rate: ArrayLike, adjacency: _Adjacency, accountant: str = "auto") -> NDArray[np.float64]: ...
def noise_multiplier(
    *,
    epsilon: float,
    delta: float,
    adjacency: _Adjacency,
    steps: int,
    sampling_rate: float = 1.0,
    noise_over: _Over = "clip",
    accountant: str = "auto",
) -> float: ...
def steps(
    *,
    epsilon: float,
    delta: float,
    adjacency: _Adjacency,
    noise_multiplier: float,
    sampling_rate: float = 1.0,
    noise_over: _Over = "clip",
    accountant: str = "auto",
) -> int: ...
def from_dp_accounting(event: Any, *, adjacency: _Adjacency, noise_over: _Over = "clip") -> Event: ...
def to_dp_accounting(event: Event, *, adjacency: _Adjacency, noise_over: _Over = "clip") -> Any: ...
