from collections.abc import Iterable, Iterator
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._dpopt import Event, Ledger
from .accounting import Statement

__all__ = ["PrivateSteps"]

class PrivateSteps:
    noise_multiplier: float
    steps: int
    def __init__(
        self,
        *,
        records: int,
        dim: int,
        clip: float,
        steps: int | None = None,
        adjacency: str,
        epsilon: float | None = None,
        delta: float | None = None,
        noise_multiplier: float | None = None,
        noise_over: Literal["clip", "sensitivity"] = "clip",
        sampling_rate: float = 1.0,
        epochs: int | None = None,
        batch_size: int | None = None,
        momentum: float = 0.0,
        cool_down: float = 0.0,
        seed: int | None = None,
        public_records: int | None = None,
        ledger: Ledger | None = None,
        threads: int | None = None,
    ) -> None: ...
    def __iter__(self) -> Iterator[NDArray[np.int64]]: ...
    def __enter__(self) -> PrivateSteps: ...
    def __exit__(self, *_: object) -> None: ...
    @property
    def left(self) -> int: ...
    @property
    def pending(self) -> bool: ...
    def draw(self, clip: float | None = None) -> NDArray[np.int64]: ...
    def add(self, gradients: ArrayLike) -> None: ...
    def add_sparse(self, starts: ArrayLike, columns: ArrayLike, values: ArrayLike) -> None: ...
    def add_products(self, factors: Iterable[tuple[ArrayLike, ArrayLike]]) -> None: ...
    def release(self) -> NDArray[np.float64]: ...
    def settle(self) -> Event: ...
    def guarantee(self, delta: float | None = None) -> Statement: ...
