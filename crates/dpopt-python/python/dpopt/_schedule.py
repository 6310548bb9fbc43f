"""How many steps there are, and how many rows are worked out at a time: public numbers."""

import math
from dataclasses import dataclass

from ._values import count
from .errors import DPUserError

#: Bytes of per-sample gradients that are held at a time.
BYTES = 2**27


@dataclass(frozen=True)
class Schedule:
    """Steps on Poisson samples whose expected size is a public number, or on slices."""

    sampling_rate: float
    steps: int
    per_epoch: int

    @classmethod
    def of(cls, *, records, batch_size, epochs, steps):
        """``records``: their public number. One of ``epochs`` and ``steps``; an epoch has as many steps as read all records in the mean."""
        if (epochs is None) == (steps is None):
            raise DPUserError("give epochs= or steps=: all of them are charged before the first")
        rate = min(1.0, batch_size / records)
        per_epoch = max(1, -(-records // batch_size))
        steps = count("epochs", epochs, 1) * per_epoch if steps is None else count("steps", steps, 1)
        return cls(rate, steps, per_epoch)


def chunk_rows(batch_size, records, dim):
    """Rows that are worked out at a time: nearly all samples in one chunk, or in as many of equal size as memory asks for."""
    most = min(records, batch_size + math.ceil(4.0 * math.sqrt(batch_size)))
    fits = max(1, BYTES // (4 * dim))
    return math.ceil(most / math.ceil(most / fits))


def chunks(positions, size):
    """Positions in turn, ``size`` at a time."""
    for start in range(0, len(positions), size):
        yield positions[start : start + size]


def split(flat, shapes):
    """A flat point as blocks of these shapes, in turn."""
    blocks, start = [], 0
    for shape in shapes:
        end = start + math.prod(shape)
        blocks.append(flat[start:end].reshape(shape))
        start = end
    if start != len(flat):
        raise DPUserError(f"{len(flat)} numbers, and the shapes take {start}")
    return blocks
