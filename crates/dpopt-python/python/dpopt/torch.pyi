from collections.abc import Callable, Iterator
from typing import Any, Literal, TypeVar

import torch
from torch import nn
from torch.utils.data import DataLoader

from ._dpopt import Event, Ledger
from .accounting import Statement

__all__ = ["PrivateLoader", "PrivateOptimizer", "Sample", "Spider", "Storm", "make_private"]

_Model = TypeVar("_Model", bound=nn.Module)

def make_private(
    model: _Model,
    optimizer: torch.optim.Optimizer,
    data_loader: DataLoader[Any],
    criterion: Callable[[Any, Any], torch.Tensor] | None = None,
    *,
    loss: Callable[[Callable[..., Any], Any], torch.Tensor] | None = None,
    max_grad_norm: float,
    adjacency: str,
    epochs: int | None = None,
    steps: int | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    noise_multiplier: float | None = None,
    noise_over: Literal["clip", "sensitivity"] = "clip",
    noise: Literal["independent", "correlated"] = "independent",
    estimator: Storm | Spider | None = None,
    public_records: int | None = None,
    ledger: Ledger | None = None,
    threads: int | None = None,
    chunk: int | None = None,
) -> tuple[_Model, PrivateOptimizer, PrivateLoader]: ...

class Storm:
    forget: float
    smoothness: float
    def __init__(self, *, forget: float, smoothness: float) -> None: ...

class Spider:
    restart: int
    smoothness: float
    def __init__(self, *, restart: int, smoothness: float) -> None: ...

class Sample:
    def __init__(self, run: Any, positions: Any, seed: int) -> None: ...
    def reveal(self) -> Any: ...

class PrivateLoader:
    def __init__(self, run: Any) -> None: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Sample]: ...

class PrivateOptimizer(torch.optim.Optimizer):
    original: torch.optim.Optimizer
    def __init__(self, optimizer: torch.optim.Optimizer, run: Any) -> None: ...
    def step(self, closure: None = None) -> None: ...  # type: ignore[override]
    def guarantee(self, delta: float | None = None) -> Statement: ...
    @property
    def noise_multiplier(self) -> float: ...
    @property
    def steps_left(self) -> int: ...
    def settle(self) -> Event: ...
