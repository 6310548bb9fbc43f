"""Layers whose gradients follow from what goes in and what comes back, without a pass of torch for the weights of each record.

Of a linear layer it is an outer product, which is never formed: its norm is the product of theirs. The argument is in
``docs/privacy/interfaces.md``.
"""

import contextlib
import math

import numpy as np
import torch
from torch import nn


#: Numbers of the inputs of a convolution that are laid out at a time.
PLACES = 2**18


class NotOnce(Exception):
    """A layer that was not used once, or on something of another shape."""

    def __init__(self):
        super().__init__("a layer is used otherwise than when the steps were planned")


class _Layer:
    """Its gradient is made of matrices, whose ``sides`` are columns of factors."""

    #: Whether most of its gradient is zero.
    sparse = False

    def __init__(self, layer, names, shape):
        self._layer, self.names, self.shape = layer, names, shape
        self.outputs, self._entries = len(layer.weight), math.prod(layer.weight.shape[1:])
        self._has_bias = int(getattr(layer, "bias", None) is not None)
        self.entries = self.outputs * (self._entries + self._has_bias)

    @property
    def matrices(self):
        """Rows and columns of the matrices, by what holds them."""
        return [(sides, sides) for sides in self.sides]

    def tap(self):
        """What is added to its outputs for one record."""
        return torch.zeros(self.shape, dtype=self._layer.weight.dtype, device=self._layer.weight.device)


class Linear(_Layer):
    """On one place of a record."""

    def __init__(self, *of):
        super().__init__(*of)
        self.sides = [(self.outputs, self._entries + self._has_bias)]
        self.width = sum(self.sides[0])

    def is_worth_it(self):
        return self.shape == (1, self.outputs) and 4 * self.width <= self.entries

    def factors(self, outputs, inputs):
        return [(outputs[:, 0], nn.functional.pad(inputs[:, 0], (0, self._has_bias), value=1.0))]

    def split(self, blocks):
        return [blocks[0][:, : self._entries], blocks[0][:, -1]][: 1 + self._has_bias]


class Convolution(_Layer):
    """A sum of outer products, one for each place: one product of matrices for each record."""

    def __init__(self, *of):
        super().__init__(*of)
        self.sides = [(1, self.outputs * self._entries)] + [(1, self.outputs)] * self._has_bias
        self.width = self.entries + self._entries * math.prod(self.shape[2:])

    def is_worth_it(self):
        layer = self._layer
        plain = layer.groups == 1 and layer.padding_mode == "zeros" and not isinstance(layer.padding, str)
        return plain and len(self.shape) == 4 and self.shape[0] == 1

    def factors(self, outputs, inputs):
        inputs, back = inputs[:, 0], outputs[:, 0].flatten(2)
        rows = back.new_empty((len(back), self.outputs, self._entries))
        # Some records at a time, so that what is copied stays in a cache.
        size = max(1, PLACES // (self._entries * back.shape[2]))
        for start in range(0, len(back), size):
            part = slice(start, start + size)
            torch.bmm(back[part], self._places(inputs[part]).transpose(1, 2), out=rows[part])
        return [alone(each) for each in [rows, back.sum(2)][: 1 + self._has_bias]]

    def _places(self, inputs):
        """For each record and entry of a weight what it is multiplied by at each place."""
        layer = self._layer
        (up, left), (stride, across) = layer.padding, layer.stride
        inputs = nn.functional.pad(inputs, (left, left, up, up))
        for axis, size, step, apart in zip((2, 3), layer.kernel_size, (stride, across), layer.dilation):
            inputs = inputs.unfold(axis, (size - 1) * apart + 1, step)[..., ::apart]
        return inputs.permute(0, 1, 4, 5, 2, 3).reshape(len(inputs), self._entries, -1)

    def split(self, blocks):
        return [block[0] for block in blocks]


class Embedding(_Layer):
    """A row for each word, of which a record has few: its words, and what came back for each."""

    sparse = True

    def __init__(self, *of):
        super().__init__(*of)
        self._words = math.prod(self.shape[1:-1])
        self.sides = [(self._words, self._words * self._entries)]
        self.width = sum(self.sides[0])

    @property
    def matrices(self):
        return [(self.sides[0], (self.outputs, self._entries))]

    def is_worth_it(self):
        layer = self._layer
        # Numbers of words are held with the others, in single precision.
        plain = layer.max_norm is None and not layer.scale_grad_by_freq and self.outputs <= 2**24
        return plain and len(self.shape) > 1 and self.shape[0] == 1 and 4 * self.width <= self.entries

    def factors(self, outputs, inputs):
        words, back = inputs[:, 0].flatten(1), outputs[:, 0].reshape(len(outputs), self._words, self._entries)
        # A word that is not there would be another record's: its record has no gradient.
        there = (words >= 0) & (words < self.outputs)
        words = torch.where(there, words, 0)
        if self._layer.padding_idx is not None:
            back = back * (words != self._layer.padding_idx)[..., None]
        return [(words, torch.where(there[..., None], back, torch.nan).flatten(1))]

    def split(self, blocks):
        return blocks


def alone(rows):
    """Rows that are no product of anything."""
    return torch.ones((len(rows), 1), dtype=rows.dtype), rows.flatten(1)


KINDS = {nn.Linear: Linear, nn.Conv2d: Convolution, nn.Embedding: Embedding}


def dense(pair, shape):
    """The gradients behind a pair of factors, one matrix for each record."""
    left, right = pair
    if _is_product(pair, shape):
        return np.einsum("rm,rn->rmn", left, right)
    found = np.zeros((len(left), *shape), dtype=right.dtype)
    words = left.astype(np.int64)
    np.add.at(found, (np.arange(len(left))[:, None], words), right.reshape(*words.shape, shape[1]))
    return found


def sparse(pairs, shapes):
    """The same of all of them as sparse rows: where each starts, columns and values."""
    rows, parts, start = len(pairs[0][0]), [], 0
    for pair, shape in zip(pairs, shapes):
        left, right = pair
        if _is_product(pair, shape):
            values = np.einsum("rm,rn->rmn", left, right).reshape(rows, -1)
            owners = np.repeat(np.arange(rows), values.shape[1])
            parts.append((owners, np.tile(np.arange(start, start + values.shape[1]), rows), values.ravel()))
        else:
            words, (height, width) = left.astype(np.int64), shape
            # Each word of a record once.
            keys, place = np.unique(words + height * np.arange(rows)[:, None], return_inverse=True)
            values = np.zeros((len(keys), width), dtype=right.dtype)
            np.add.at(values, place.ravel(), right.reshape(-1, width))
            columns = start + (keys % height)[:, None] * width + np.arange(width)
            parts.append((np.repeat(keys // height, width), columns.ravel(), values.ravel()))
        start += math.prod(shape)
    owners, columns, values = (np.concatenate(part) for part in zip(*parts))
    # Columns of a part are above those of the part before, and rise.
    order = np.argsort(owners, kind="stable")
    starts = np.searchsorted(owners[order], np.arange(rows + 1))
    return starts, columns[order], values[order]


def sparse_numbers(matrices):
    """For how many numbers in single precision :func:`sparse` has room for each record: values, their columns and records in 64 bits, and a
    copy in order."""
    values = sum(left * right if (left, right) == tuple(shape) else right for (left, right), shape in matrices)
    return 15 * values


def _is_product(pair, shape):
    return (pair[0].shape[1], pair[1].shape[1]) == tuple(shape)


def candidates(model, trained, shapes):
    """Layers of these kinds with weights that are trained and nobody else's, by the shapes of what they give."""
    found, names = {}, {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    for name, layer in model.named_modules(remove_duplicate=False):
        own = {of: f"{name}.{of}".lstrip(".") for of, _ in layer.named_parameters(recurse=False)}
        unshared = all(names[id(getattr(layer, of))] == [full] and full in trained for of, full in own.items())
        if name in shapes and own and unshared:
            one = KINDS[type(layer)](layer, list(own.values()), shapes[name])
            if one.is_worth_it():
                found[name] = one
    return found


@contextlib.contextmanager
def watched(model):
    """The shapes of what layers of these kinds give meanwhile."""
    shapes, handles = {}, []
    for name, layer in model.named_modules():
        if type(layer) in KINDS:
            handles.append(layer.register_forward_hook(lambda _, given, output, name=name: shapes.update({name: tuple(output.shape)})))
    try:
        yield shapes
    finally:
        for handle in handles:
            handle.remove()


@contextlib.contextmanager
def tapped(model, taps, inputs):
    """Adds the taps to the outputs of layers, and keeps their inputs."""

    def hook(name):
        def of(_, given, output):
            if name in inputs or len(given) != 1 or output.shape != taps[name].shape:
                raise NotOnce
            # Nothing writes to it later: torch refuses that where the whole gradient is taken, which is tried first.
            inputs[name] = given[0]
            return output + taps[name]

        return of

    handles = [model.get_submodule(name).register_forward_hook(hook(name), prepend=True) for name in taps]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def equal(factors, others, start=0):
    """Bit for bit, from this row on."""
    pairs = zip((side for pair in factors for side in pair), (side for pair in others for side in pair))
    return all(np.array_equal(one[start:], other[start:], equal_nan=True) for one, other in pairs)


def close(rows, others):
    return np.allclose(rows, others, rtol=1e-3, atol=1e-4 * float(np.abs(others).max(initial=0.0)), equal_nan=True)
