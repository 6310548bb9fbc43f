"""Networks that tried to let one record change the row of another: each is undone or refused, or its record is zero."""

import threading
import warnings

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

    # A class that is not there has a gradient that is not finite, which counts as zero.
    good, bad = of(1), of(7)
    assert not np.isfinite(bad[0]).all() and good[0].any()
    assert np.array_equal(good[1:], bad[1:])


class Wordy(nn.Module):
    """Words of a record, taken by a layer, or by a function from a table of many or of few."""

    def __init__(self, how):
        super().__init__()
        self.how, self.last = how, nn.Linear(8, 3)
        self.words = nn.Embedding(2000 if how == "sparse" else 5, 8)

    def forward(self, x):
        table = self.words.weight
        if self.how == "index_select":
            return self.last(table.index_select(0, x[0]).mean(0, keepdim=True))
        if self.how == "items":
            return self.last(table[x[0]].mean(0, keepdim=True))
        return self.last(self.words(x).mean(1))


#: How a record can have no gradient: the model, the criterion, records, and what makes one of them such a record.
ODD = {
    "class": (lambda: nn.Linear(4, 3), nn.CrossEntropyLoss(), "classes", 7),
    "negative class": (lambda: nn.Linear(4, 3), nn.CrossEntropyLoss(), "classes", -1),
    "class of log-probabilities": (lambda: nn.Sequential(nn.Linear(4, 3), nn.LogSoftmax(1)), nn.NLLLoss(), "classes", 3),
    "class of a margin": (lambda: nn.Linear(4, 3), nn.MultiMarginLoss(), "classes", 9),
    "class by gather": (lambda: nn.Linear(4, 3), lambda out, y: -out.log_softmax(1).gather(1, y[:, None]).sum(), "classes", 2**40),
    "class by scatter": (lambda: nn.Linear(4, 3), lambda out, y: (out - torch.zeros(1, 3).scatter(1, y[:, None], 1.0)).square().sum(), "classes", 3),
    "words": (lambda: Wordy("layer"), nn.CrossEntropyLoss(), "words", 5),
    "sparse words": (lambda: Wordy("sparse"), nn.CrossEntropyLoss(), "words", 2000),
    "negative sparse words": (lambda: Wordy("sparse"), nn.CrossEntropyLoss(), "words", -1),
    "words by index_select": (lambda: Wordy("index_select"), nn.CrossEntropyLoss(), "words", 5),
    "words as items": (lambda: Wordy("items"), nn.CrossEntropyLoss(), "words", -6),
    "probability": (lambda: nn.Sequential(nn.Linear(4, 1), nn.Sigmoid()), nn.BCELoss(), "shares", 1.5),
    "probability of NaN": (lambda: nn.Sequential(nn.Linear(4, 1), nn.Sigmoid()), nn.BCELoss(), "numbers", np.nan),
}


def odd_data(kind, odd):
    torch.manual_seed(3)
    x, y = torch.randn(40, 4), torch.randint(3, (40,))
    if kind == "words":
        x = torch.randint(5, (40, 6))
    if kind in ("shares", "numbers"):
        y = torch.rand(40, 1)
    if odd is not None:
        changed = x if kind in ("words", "numbers") else y
        changed[7] = changed[7].clone()
        changed[7].view(-1)[0] = odd
    return TensorDataset(x, y)


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("estimator", [None, dpopt.torch.Storm(forget=0.5, smoothness=1.0)])
def test_a_record_without_a_gradient_costs_no_call_more_and_counts_as_zero(kind, estimator, monkeypatch):
    model, criterion, of, odd = ODD[kind]
    whole = dpopt.torch._Task.gradients

    def released(data):
        """The first gradient, times the records that its mean is over, and the calls of two steps."""
        torch.manual_seed(1)
        made, calls, found = model(), [], []
        settings = {} if estimator is None else {"estimator": estimator}
        # All records in each step, in three chunks, with next to no noise.
        _, optimizer, loader = private(made, data, batch=40, criterion=criterion, noise_multiplier=1e-9, steps=2, chunk=16, **settings)
        with monkeypatch.context() as patch:
            patch.setattr(dpopt.torch._Task, "gradients", lambda *arguments: calls.append(1) or whole(*arguments))
            for _ in range(2):
                next(iter(loader))
                optimizer.step()
                found.append(torch.cat([parameter.grad.reshape(-1) for parameter in made.parameters()]).numpy() * len(data))
        assert np.isfinite(found).all()
        return found[0], len(calls)

    usual = odd_data(of, None)
    without = TensorDataset(*(torch.cat([part[:7], part[8:]]) for part in usual.tensors))
    (_, calls), (found, of_odd), (zero, _) = released(usual), released(odd_data(of, odd)), released(without)
    assert calls == of_odd == (6 if estimator is None else 9)
    assert np.allclose(found, zero, atol=1e-4)


class Fussy(torch.autograd.Function):
    """Raises an error on a value that no made-up record has."""

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
        if (x == 77.0).any():
            raise RuntimeError("77")
        return x.clone(), in_dims[0]


def test_an_error_that_nothing_foresaw_is_looked_for_by_halves(monkeypatch):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 3)

        def forward(self, x):
            return self.linear(Fussy.apply(x))

    def of(value):
        torch.manual_seed(2)
        x = torch.randn(64, 4)
        x[5, 0] = x[40, 1] = value
        _, optimizer, _ = private(Model(), TensorDataset(x, torch.zeros(64, dtype=torch.long)), chunk=64)
        task, calls = optimizer._run.task, []
        whole = task.gradients
        monkeypatch.setattr(task, "gradients", lambda *arguments: calls.append(1) or whole(*arguments))
        return task.matrices(task.contributions(np.arange(64), 64, 3)), len(calls)

    (usual, one), (odd, more) = of(7.0), of(77.0)
    assert not odd[[5, 40]].any() and np.array_equal(np.delete(usual, [5, 40], 0), np.delete(odd, [5, 40], 0))
    # Two of 64 by halves: at most two for each of six levels and record, the first, that of zeros, the whole and the last.
    assert one == 1 and more <= 2 * 2 * 6 + 4


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


class MixesWords(nn.Module):
    """Mixes what became of words: of records that are all words nothing but these can be changed."""

    def __init__(self):
        super().__init__()
        self.words, self.linear = nn.Embedding(5, 4), nn.Linear(4, 3)

    def forward(self, x):
        return self.linear(Centred.apply(self.words(x).mean(1)))


def test_a_layer_that_mixes_words_is_refused():
    torch.manual_seed(0)
    data = TensorDataset(torch.randint(5, (40, 6)), torch.zeros(40, dtype=torch.long))
    with pytest.raises(dpopt.DPUserError, match="mixes records"):
        private(MixesWords(), data)


class KeepsInTraining(nn.Module):
    """Adds what it saw in train() to what it says there."""

    def __init__(self):
        super().__init__()
        self.linear, self.seen = nn.Linear(4, 3), []

    def forward(self, x):
        out = self.linear(x)
        if self.training:
            out = out * (1 + 0.1 * len(self.seen))
            self.seen.append(0)
        return out


@pytest.mark.parametrize(("layer", "words"), [(KeepsInTraining, "keeps something"), (lambda: nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 3)), "means over records")])
def test_a_mode_that_was_not_tried_is_tried_before_records_are_read(layer, words):
    torch.manual_seed(0)
    model = layer().eval()
    data = TensorDataset(torch.randn(40, 4), torch.zeros(40, dtype=torch.long))
    _, optimizer, loader = private(model, data)
    next(iter(loader))
    model.train()
    with pytest.raises(dpopt.DPUserError, match=words):
        optimizer.step()


def test_a_draw_that_is_interrupted_leaves_no_sample_behind(monkeypatch):
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(40, 4), torch.zeros(40, dtype=torch.long))
    _, optimizer, loader = private(nn.Linear(4, 3), data)
    samples = iter(loader)
    next(samples)
    run = optimizer._run

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(dpopt.torch, "Sample", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run.draw()
    with pytest.raises(dpopt.DPUserError, match="no sample was drawn"):
        optimizer.step()


def test_infinite_gradients_of_an_estimator_are_silent():
    class Infinite(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x.clone()

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(output)

        @staticmethod
        def backward(ctx, gradient):
            (output,) = ctx.saved_tensors
            return gradient + torch.where(output.abs() > 1e3, torch.inf, 0.0)

    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 3)

        def forward(self, x):
            return Infinite.apply(self.linear(x))

    torch.manual_seed(0)
    x = torch.randn(40, 4)
    x[7] = 1e6
    model = Odd()
    _, optimizer, loader = private(model, TensorDataset(x, torch.zeros(40, dtype=torch.long)), batch=40, estimator=dpopt.torch.Storm(forget=0.5, smoothness=1.0))
    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in loader:
            optimizer.step()
        for _ in loader:
            optimizer.step()
    assert all(torch.isfinite(parameter).all() for parameter in model.parameters())


def test_a_panic_of_an_extension_is_its_records_affair():
    class Panic(BaseException):
        pass

    class Tokens(Dataset):
        def __init__(self, odd):
            self.odd = odd

        def __len__(self):
            return 20

        def __getitem__(self, i):
            if i == self.odd:
                raise Panic("of record 5")
            return torch.arange(4.0) + i, torch.tensor(i % 3)

    def of(odd):
        torch.manual_seed(2)
        return rows(private(nn.Linear(4, 3), Tokens(odd))[1], np.arange(20))

    usual, bad = of(-1), of(5)
    assert not bad[5].any() and np.array_equal(np.delete(usual, 5, 0), np.delete(bad, 5, 0))


def test_records_with_their_keys_in_another_order_are_the_same_records():
    class Keys(Dataset):
        def __init__(self, turned):
            self.turned = turned

        def __len__(self):
            return 20

        def __getitem__(self, i):
            record = {"x": torch.arange(4.0) + i, "z": torch.ones(4) / (1 + i)}
            if i == self.turned:
                record = {name: record[name] for name in ("z", "x")}
            return record | ({"more": torch.ones(1)} if i == 11 else {})

    def of(turned):
        torch.manual_seed(2)
        model = nn.Linear(4, 3)
        settings = dict(adjacency="zero-out", max_grad_norm=1.0, noise_multiplier=1.0, steps=3, loss=lambda model, record: (model(record["x"]) * record["z"][:, :3]).sum())
        _, optimizer, _ = make_private(model, torch.optim.SGD(model.parameters(), lr=0.5), DataLoader(Keys(turned), batch_size=20), **settings)
        return rows(optimizer, np.arange(20))

    usual = of(-1)
    assert np.array_equal(usual, of(4)) and not usual[11].any() and usual[4].any()


class Skips(nn.Module):
    """A layer that about every other seed leaves out."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(30, 40), nn.Linear(40, 40)
        self.last = nn.Linear(40, 3)

    def forward(self, x):
        x = torch.tanh(self.first(x))
        if torch.rand(()) < 0.5:
            x = x + self.second(x)
        return self.last(x)


def test_a_record_without_a_gradient_does_not_tell_by_a_layer_that_is_left_out():
    def steps(label):
        torch.manual_seed(0)
        x, y = torch.randn(40, 30), torch.zeros(40, dtype=torch.long)
        y[3] = label
        _, optimizer, loader = private(Skips(), TensorDataset(x, y), batch=40, steps=12)
        while optimizer.steps_left:
            for _ in loader:
                optimizer.step()
        return optimizer.steps_left

    assert steps(0) == steps(7) == 0


def test_an_empty_sample_ends_factors_as_any_other_does():
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(40, 30), torch.zeros(40, dtype=torch.long))
    _, optimizer, loader = private(Skips(), data, batch=40, steps=12)
    run = optimizer._run
    while optimizer.steps_left:
        for sample in loader:
            sample._positions = sample._positions[:0]
            optimizer.step()
    # Twelve seeds that all use the layer: once in 4096 runs.
    assert not run.task._layers


def test_an_estimate_keeps_its_order_when_factors_end():
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(40, 30), torch.zeros(40, dtype=torch.long))

    class Late(Skips):
        """Leaves a layer out from some step on."""

        def forward(self, x):
            x = torch.tanh(self.first(x))
            return self.last(x if self.short else x + self.second(x))

    model = Late()
    model.short = False
    settings = dict(estimator=dpopt.torch.Spider(restart=100, smoothness=100.0), adjacency="zero-out", max_grad_norm=100.0, noise_multiplier=1e-6, steps=6)
    _, optimizer, loader = make_private(model, torch.optim.SGD(model.parameters(), lr=1e-9), DataLoader(data, batch_size=40), nn.CrossEntropyLoss(), **settings)
    found = []
    for number in range(6):
        next(iter(loader))
        model.short = number >= 3
        optimizer.step()
        found.append(torch.cat([parameter.grad.reshape(-1) for parameter in model.parameters()]))
    assert not optimizer._run.task._layers
    # Points are next to each other: what was followed is still there, whatever the last gradients were of.
    assert nn.functional.cosine_similarity(found[2], found[5], dim=0) > 0.99


def test_steps_that_are_made_are_not_lost_with_their_ledger(tmp_path):
    torch.manual_seed(0)
    path = tmp_path / "ledger.jsonl"
    ledger = dpopt.Ledger(path, epsilon=9.0, delta=1e-5, adjacency="zero-out", filter="rdp")
    data = TensorDataset(torch.randn(40, 4), torch.zeros(40, dtype=torch.long))
    _, optimizer, loader = private(nn.Linear(4, 3), data, noise_multiplier=5.0, steps=2, ledger=ledger)

    def goes_away(*_):
        if not optimizer.steps_left:
            path.unlink()
            path.mkdir()

    optimizer.original.register_step_post_hook(goes_away)
    with pytest.warns(RuntimeWarning, match="all that was set aside"):
        for _ in loader:
            optimizer.step()
    assert optimizer.steps_left == 0


def test_a_layer_that_a_seed_leaves_out_ends_factors_and_not_training():
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(40, 30), torch.zeros(40, dtype=torch.long))
    model = Skips()
    _, optimizer, loader = private(model, data, batch=40, noise_multiplier=1e-6, steps=12, max_grad_norm=100.0)
    task = optimizer._run.task
    had = bool(task._layers)
    x, y = data.tensors
    before = nn.functional.cross_entropy(model(x), y).item()
    # Twelve seeds that all use the layer: once in 4096 runs.
    while optimizer.steps_left:
        for _ in loader:
            optimizer.step()
    after = nn.functional.cross_entropy(model(x), y).item()
    assert had and not task._layers and after < before / 4


def test_what_fails_on_zeros_too_is_an_error():
    class Breaks(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.whole = nn.Linear(4, 3), True

        def forward(self, x):
            return self.linear(x if self.whole else x[:, :2])

    torch.manual_seed(0)
    model = Breaks()
    _, optimizer, loader = private(model, TensorDataset(torch.randn(40, 4), torch.zeros(40, dtype=torch.long)), batch=40)
    next(iter(loader))
    model.whole = False
    with pytest.raises(dpopt.DPUserError, match="any more"):
        optimizer.step()


def test_a_layer_whose_weights_are_used_by_a_function_too_keeps_its_matrix():
    class TiedByFunction(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(300, 4)

        def forward(self, x):
            return (self.words(x).mean(1) @ self.words.weight.T).unsqueeze(-1)

    torch.manual_seed(0)
    text = torch.randint(1, 300, (40, 3))
    model = TiedByFunction()
    # Made-up labels of zeros are all ignored.
    criterion = nn.CrossEntropyLoss(ignore_index=0, reduction="sum")
    _, optimizer, _ = private(model, TensorDataset(text, text[:, :1]), criterion=criterion)
    assert not optimizer._run.task._layers


def test_sparse_rows_are_taken_where_they_hold_less():
    def layers(words, units):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Embedding(words, 16), nn.Flatten(), nn.Linear(10 * 16, units), nn.Linear(units, 2))
        data = TensorDataset(torch.randint(words, (40, 10)), torch.zeros(40, dtype=torch.long))
        return optimizer_of(model, data)._run.task

    def optimizer_of(model, data):
        return private(model, data)[1]

    assert layers(20_000, 8).sparse
    # What is no row of a word is more than all the words.
    task = layers(4000, 512)
    assert not task.sparse and task.factored


def test_add_remove_is_warned_of():
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(40, 4), torch.zeros(40, dtype=torch.long))
    with pytest.warns(UserWarning, match="zero-out"):
        private(nn.Linear(4, 3), data, adjacency="add-remove", public_records=40)


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
                waits.wait()
            return torch.ones(4), torch.tensor(1)

    data = Slow()
    _, optimizer, loader = private(nn.Linear(4, 3), data, batch=30)
    steps = iter(loader)
    next(steps)
    Slow.ready = True
    other = threading.Thread(target=optimizer.step)
    other.start()
    held.wait()
    for meanwhile in (optimizer.step, lambda: next(iter(loader))):
        with pytest.raises(dpopt.DPUserError, match="one step at a time"):
            meanwhile()
    waits.set()
    other.join()
    assert optimizer.steps_left == 2
