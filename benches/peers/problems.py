"""The numbers of our side, made again, and what is compared."""

import os

import numpy as np

CLIP = 0.5
NOISE = 1.0  # times the clip


class Problem:
    """A row: the names of its tools, the calls of each by kind, and a comparison with our answer."""

    def __init__(self, names, build, check):
        # build(name): {kind: call}. check(name, calls) raises where an answer differs.
        self.names, self.build, self.check = list(names), build, check


class Numbers:
    """Repeatable numbers in [-1, 1): those of benches/src/numbers.rs."""

    A, C = 6364136223846793005, 1442695040888963407
    BLOCK = 1 << 20

    def __init__(self, seed):
        self.state = seed
        states = np.empty(self.BLOCK, np.uint64)
        # states[k] is a^(k+1) s + c_(k+1), for s = 0 and for s = 1.
        a, c, known = self.A, self.C, 1
        self.factor, self.shift = np.empty_like(states), np.empty_like(states)
        self.factor[0], self.shift[0] = a, c
        with np.errstate(over="ignore"):
            while known < self.BLOCK:
                to = min(2 * known, self.BLOCK)
                fa, fc = self.factor[known - 1], self.shift[known - 1]
                self.factor[known:to] = self.factor[: to - known] * fa
                self.shift[known:to] = self.factor[: to - known] * fc + self.shift[: to - known]
                known = to

    def take(self, count):
        out = np.empty(count)
        with np.errstate(over="ignore"):
            for start in range(0, count, self.BLOCK):
                now = min(self.BLOCK, count - start)
                states = self.factor[:now] * np.uint64(self.state) + self.shift[:now]
                self.state = int(states[-1])
                out[start : start + now] = (states >> np.uint64(40)).astype(np.float64) / (1 << 23) - 1
        return out


def ours(folder, name):
    """What our side wrote."""
    return np.fromfile(os.path.join(folder, name + ".f64"), "<f8")


def same(found, reference, tolerance=1e-3):
    """Ours is shortened by the share of the clip that pays for its rounding, at most three thousandths; direction and length are
    compared apart."""
    found = np.asarray(found, dtype=np.float64).ravel()
    if found.shape != reference.shape:
        raise RuntimeError(f"its answer has {found.size} numbers, ours {reference.size}")
    share = found @ reference / (found @ found)
    if not 0.997 - tolerance / 10 < share < 1 + tolerance / 10:
        raise RuntimeError(f"ours is {share:.5f} times its answer")
    error = np.linalg.norm(share * found - reference) / np.linalg.norm(reference)
    if not error < tolerance:
        raise RuntimeError(f"its answer differs from ours by {error:.1e} of the norm")


def noise_of(found, sigma):
    """Of d normal numbers; the standard deviation of theirs is sigma within a part in sqrt(d/2)."""
    spread = np.sqrt(np.mean(np.asarray(found, dtype=np.float64) ** 2)) / sigma
    if not abs(spread - 1) < 8 / np.sqrt(2 * np.size(found)):
        raise RuntimeError(f"its noise is {spread:.3f} times what was asked for")


def labels(numbers, records):
    return np.where(numbers.take(records) < 0, -1, 1).astype(np.float32)


def rows(records, columns, dtype=np.float32):
    numbers = Numbers(1)
    size = (3 / columns) ** 0.5
    x = (size * numbers.take(records * columns)).astype(dtype).reshape(records, columns)
    return x, labels(numbers, records)


def one_hot(records, columns, fields):
    import scipy.sparse

    numbers = Numbers(1)
    width = columns // fields
    both = numbers.take(2 * records * fields).reshape(records, fields, 2)
    category = np.abs(both[..., 0] * both[..., 1]) * width
    columns_of = category.astype(np.int32) + np.arange(fields, dtype=np.int32) * width
    ones = np.full(records * fields, np.float32(np.sqrt(1 / fields)), np.float32)
    starts = np.arange(0, records * fields + 1, fields, dtype=np.int32)
    x = scipy.sparse.csr_matrix((ones, columns_of.ravel(), starts), shape=(records, columns))
    return x, labels(numbers, records)


def images(records, columns=784, classes=10):
    numbers = Numbers(2)
    pixels = (128 * (numbers.take(records * columns) + 1)).astype(np.uint8)
    x = (pixels * np.float32(1 / 255)).astype(np.float32).reshape(records, columns)
    return x, np.arange(records) % classes
