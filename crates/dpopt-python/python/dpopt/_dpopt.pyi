"""The extension. Use the package: these are the functions behind it."""

from collections.abc import Callable
from os import PathLike
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

__version__: str

@final
class Event:
    @staticmethod
    def gaussian(noise_multiplier: float) -> Event: ...
    def poisson_sampled(self, rate: float) -> Event: ...
    def repeated(self, count: int) -> Event: ...
    @staticmethod
    def composed(events: list[Event]) -> Event: ...
    @classmethod
    def from_json(cls, text: str) -> Event: ...
    def to_json(self) -> str: ...
    @property
    def releases(self) -> int: ...

@final
class Ledger:
    def __new__(
        cls,
        path: str | PathLike[str],
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        adjacency: str | None = None,
        filter: str = "gdp",
    ) -> Ledger: ...
    @property
    def path(self) -> Any: ...
    def report_json(self) -> str: ...

@final
class Table:
    @staticmethod
    def dense(
        rows: NDArray[np.float32] | NDArray[np.float64],
        labels: NDArray[np.float32],
        ranges: tuple[NDArray[np.float64], NDArray[np.float64]] | None,
        intercept: float | None,
    ) -> Table: ...
    @staticmethod
    def sparse(
        rows: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]],
        width: int,
        labels: NDArray[np.float32],
        intercept: float | None,
    ) -> Table: ...
    def __len__(self) -> int: ...
    @property
    def width(self) -> int: ...

@final
class Steps:
    def __new__(
        cls,
        *,
        records: int,
        public_records: int | None,
        dim: int,
        clip: float,
        noise_multiplier: float,
        sampling_rate: float,
        steps: int,
        adjacency: str,
        ledger: Ledger | None,
        threads: int | None,
    ) -> Steps: ...
    def draw(self) -> NDArray[np.int64] | None: ...
    def add(self, rows: NDArray[np.float32] | NDArray[np.float64]) -> None: ...
    def release(self) -> NDArray[np.float64]: ...
    def pending(self) -> bool: ...
    def settle(self) -> Event: ...
    def guarantee(self, delta: float) -> tuple[float, str, Event]: ...
    @property
    def adjacency(self) -> str: ...

def epsilon(event: Event, delta: float, adjacency: str, accountant: str) -> tuple[float, str]: ...
def delta(event: Event, epsilons: NDArray[np.float64], adjacency: str, accountant: str) -> NDArray[np.float64]: ...
def trade_off(event: Event, rates: NDArray[np.float64], adjacency: str, accountant: str) -> NDArray[np.float64]: ...
def calibrate_noise(epsilon: float, delta: float, adjacency: str, sampling_rate: float, count: int, accountant: str) -> float: ...
def calibrate_steps(
    epsilon: float, delta: float, adjacency: str, sampling_rate: float, noise_multiplier: float, accountant: str
) -> int: ...
def plan(task: dict[str, Any], inputs: int) -> dict[str, Any]: ...
def train(
    table: Table,
    task: dict[str, Any],
    threads: int | None,
    ledger: Ledger | None,
    progress: Callable[[int, int], object] | None,
) -> dict[str, Any]: ...
def train_groups(
    table: Table,
    task: dict[str, Any],
    threads: int | None,
    ledger: Ledger | None,
    progress: Callable[[int, int], object] | None,
) -> tuple[dict[str, Any], NDArray[np.float64]]: ...
def outputs(table: Table, task: dict[str, Any], weights: NDArray[np.float64]) -> NDArray[np.float64]: ...
def solvers() -> list[str]: ...
def losses() -> list[str]: ...
