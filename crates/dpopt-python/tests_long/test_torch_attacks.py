"""Networks that tried to let one record change the row of another: each is undone or refused, or its record is zero."""

import threading

import dpopt
import numpy as np
import pytest
import torch
from dpopt.torch import make_private
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm
from torch.utils.data import DataLoader, Dataset, TensorDataset


def private(model, data, batch=20, criterion=None, **settings):
    settings = {"adjacency": "zero-out", "max_grad_norm": 1.0, "noise_multiplier": 1.0, "steps": 3, **settings}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    return make_private(model, optimizer, DataLoader(data, batch_size=batch), criterion or nn.CrossEntropyLoss(), **settings)


def rows(optimizer, positions, seed=3):
    run = optimizer._run
    found = [run.task.contributions(np.array(part), run.chunk, seed) for part in np.array_split(positions, -(-len(positions) // run.chunk))]
    return np.concatenate([run.task.matrices(part) for part in found])


def test_what_a_record_costs_in_evaluations_changes_no_row():
    def of(label):
        torch.manual_seed(1)
        x, y = torch.randn(60, 16) + 0.5, torch.zeros(60, dtype=torch.long)
        y[0] = label
        model = nn.Sequential(spectral_norm(nn.Linear(16, 32)), nn.ReLU(), nn.Linear(32, 3))
        _, optimizer, _ = private(model, TensorDataset(x, y), chunk=20)
        with torch.no_grad():
            generator = torch.Generator().manual_seed(5)
            for parameter in model.parameters():
                parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
        return rows(optimizer, np.arange(60))

    # A class that is not there has its chunk evaluated record by record.
    good, bad = of(1), of(7)
    assert not bad[0].any() and good[0].any()
    assert np.array_equal(good[1:], bad[1:])


class Remembers(nn.Module):
    """Adds to each record what it saw before; of records of zeros it makes NaN."""

    def __init__(self):
        super().__init__()
        self.linear, self.seen = nn.Linear(4, 3), []

    def forward(self, x):
        x = x / x.norm()
        out = self.linear(x) + sum(self.seen, start=torch.zeros(()))
        self.seen.append(0.1)
        return out


class Centred(torch.autograd.Function):
    """Mixes the records of a chunk by a rule of its own for vmap."""

    @staticmethod
    def forward(x):
        return x.clone()

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, gradient):
        return gradient

    @staticmethod
    def vmap(info, in_dims, x):
        return x - x.mean(in_dims[0], keepdim=True), in_dims[0]


class Mixes(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x):
        return self.linear(Centred.apply(x))


@pytest.mark.parametrize(("layer", "words"), [(Remembers, "keeps something"), (Mixes, "mixes records")])
def test_layers_that_keep_or_mix_are_refused(layer, words):
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(40, 4), torch.zeros(40, dtype=torch.long))
    with pytest.raises(dpopt.DPUserError, match=words):
        private(layer(), data)


def test_a_criterion_that_keeps_a_mean_is_undone():
    class Moving(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.zeros(()))

        def forward(self, out, y):
            loss = nn.functional.cross_entropy(out, y)
            if self.training:
                self.mean = self.mean + 0.1
            return loss * (1 + self.mean)

    torch.manual_seed(0)
    data = TensorDataset(torch.randn(40, 4), torch.zeros(40, dtype=torch.long))
    _, optimizer, _ = private(nn.Linear(4, 3), data, criterion=Moving())
    assert np.array_equal(rows(optimizer, np.arange(20)), rows(optimizer, np.arange(20)))


def test_a_record_of_another_layout_is_zero():
    class Odd(Dataset):
        def __len__(self):
            return 30

        def __getitem__(self, position):
            x = torch.full((4,), 1.0 + position)
            return (x.to_sparse() if position == 3 else x), torch.tensor(1)

    def collate(records):
        return records[0][0][None] if not records[0][0].is_sparse else records[0][0].unsqueeze(0), records[0][1][None]

    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    loader = DataLoader(Odd(), batch_size=10, collate_fn=collate)
    _, optimizer, _ = make_private(
        model, optimizer, loader, nn.CrossEntropyLoss(), adjacency="zero-out", max_grad_norm=1.0, noise_multiplier=1.0, steps=2
    )
    found = rows(optimizer, np.arange(8))
    assert not found[3].any() and all(found[i].any() for i in (0, 1, 2, 4, 5, 6, 7))


def test_the_first_record_does_not_choose_the_seeds():
    class Draws(Dataset):
        def __init__(self, many):
            self.many = many

        def __len__(self):
            return 30

        def __getitem__(self, position):
            torch.rand(self.many if position == 0 else 1)
            return torch.ones(4), torch.tensor(1)

    def seed(many):
        torch.manual_seed(7)
        _, _, loader = private(nn.Linear(4, 3), Draws(many), batch=10)
        return next(iter(loader))._seed

    assert seed(1) == seed(9)


def test_another_type_is_refused_before_a_draw():
    data = TensorDataset(torch.randn(40, 4), torch.zeros(40, dtype=torch.long))
    model, optimizer, loader = private(nn.Linear(4, 3), data)
    model.double()
    left = optimizer.steps_left
    with pytest.raises(dpopt.DPUserError, match="type or device"):
        next(iter(loader))
    assert optimizer.steps_left == left


def test_two_threads_do_not_meet_in_a_sum():
    waits, held = threading.Event(), threading.Event()

    class Slow(Dataset):
        ready = False

        def __len__(self):
            return 30

        def __getitem__(self, position):
            if self.ready:
                held.set()
                waits.wait(10)
            return torch.ones(4), torch.tensor(1)

    data = Slow()
    _, optimizer, loader = private(nn.Linear(4, 3), data, batch=30)
    steps = iter(loader)
    next(steps)
    Slow.ready = True
    other = threading.Thread(target=optimizer.step)
    other.start()
    held.wait(10)
    for meanwhile in (optimizer.step, lambda: next(iter(loader))):
        with pytest.raises(dpopt.DPUserError, match="one step at a time"):
            meanwhile()
    waits.set()
    other.join()
    assert optimizer.steps_left == 2
