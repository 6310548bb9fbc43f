"""The parts of dpopt.torch that need no torch. Its own tests are the long form's: `cargo xtask python --torch`."""

import builtins
import importlib
import sys

import numpy as np
import pytest
from dpopt import DPUserError
from dpopt._schedule import BYTES, Schedule, chunk_rows, chunks, split


def test_without_torch_it_says_what_is_missing(monkeypatch):
    real = builtins.__import__

    def none(name, *args, **kwargs):
        if name.split(".")[0] == "torch":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", none)
    monkeypatch.delitem(sys.modules, "dpopt.torch", raising=False)
    with pytest.raises(ImportError, match="dpopt.torch needs PyTorch"):
        importlib.import_module("dpopt.torch")


def test_epochs_are_read_in_the_mean():
    found = Schedule.of(records=1000, batch_size=100, epochs=3, steps=None)
    assert (found.sampling_rate, found.steps, found.per_epoch) == (0.1, 30, 10)
    # The last step of an epoch is a whole one.
    assert Schedule.of(records=1000, batch_size=300, epochs=1, steps=None).per_epoch == 4
    assert Schedule.of(records=10, batch_size=300, epochs=2, steps=None) == Schedule(1.0, 2, 1)
    assert Schedule.of(records=10, batch_size=5, epochs=None, steps=7).steps == 7
    for wrong in [dict(epochs=None, steps=None), dict(epochs=1, steps=1), dict(epochs=0, steps=None), dict(epochs=None, steps=1.5)]:
        with pytest.raises(DPUserError):
            Schedule.of(records=10, batch_size=5, **wrong)


@pytest.mark.parametrize(("batch_size", "dim"), [(1, 1), (256, 10_000), (10_000, 10), (64, 10**9), (1000, 10**6)])
def test_chunks_fit_into_memory(batch_size, dim):
    rows = chunk_rows(batch_size, 10**6, dim)
    assert rows >= 1 and (rows == 1 or 4 * rows * dim <= BYTES)
    # Four deviations above what is expected: nearly all samples fit.
    assert 4 * batch_size * dim > BYTES / 2 or rows >= batch_size + 4 * batch_size**0.5
    assert chunk_rows(batch_size, batch_size, 1) == batch_size


def test_chunks_have_each_position_once_and_in_turn():
    positions = np.arange(0, 70, 3)
    parts = list(chunks(positions, 10))
    assert [len(part) for part in parts] == [10, 10, 4]
    assert np.array_equal(np.concatenate(parts), positions)
    assert list(chunks(positions[:0], 10)) == []


def test_a_flat_point_is_split_as_it_was_joined():
    rng = np.random.default_rng(0)
    blocks = [rng.normal(size=shape) for shape in [(3, 4), (), (5,), (2, 0), (2, 3, 1)]]
    flat = np.concatenate([block.ravel() for block in blocks])
    for found, block in zip(split(flat, [block.shape for block in blocks]), blocks):
        assert np.array_equal(found, block)
    with pytest.raises(DPUserError):
        split(flat, [(3, 4)])
