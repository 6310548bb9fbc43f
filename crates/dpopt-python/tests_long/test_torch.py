"""Networks: against closed forms, other accountants, autograd of one record alone. Tests of laws state their false alarm rate."""

import pathlib
import re

import dpopt
import numpy as np
import pytest
import torch
from dpopt.torch import Spider, Storm, make_private
from scipy import stats
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

SMALL = dict(noise_multiplier=1e-6, adjacency="zero-out", max_grad_norm=1.0)


def classes(n=60, d=4, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)).astype(np.float32)
    return x, (x[:, 0] > 0).astype(np.float32)[:, None]


def linear(n=60, batch=60, criterion=None, lr=1.0, **settings):
    x, y = classes(n)
    model = nn.Linear(4, 1)
    loader = DataLoader(TensorDataset(torch.from_numpy(x), torch.from_numpy(y)), batch_size=batch)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    return x, y, make_private(model, optimizer, loader, criterion or nn.BCEWithLogitsLoss(), **{**SMALL, "steps": 1, **settings})


def flat(model, what="data"):
    return torch.cat([getattr(p, what).detach().reshape(-1) for p in model.parameters()]).numpy().astype(np.float64)


def logistic(x, y, w):
    """Gradients of the logistic loss, each clipped to 1."""
    ones = np.column_stack([x, np.ones(len(x))]).astype(np.float64)
    rows = (1 / (1 + np.exp(-ones @ w)) - y[:, 0])[:, None] * ones
    return rows * np.minimum(1, 1 / np.linalg.norm(rows, axis=1, keepdims=True))


def test_a_step_is_that_of_the_closed_form():
    x, y, (model, optimizer, loader) = linear(steps=3)
    for _ in range(3):
        for _ in loader:
            before = flat(model)
            # What is left there is not a private gradient.
            for parameter in model.parameters():
                parameter.grad = torch.full_like(parameter, 1e3)
            optimizer.step()
            assert np.allclose(flat(model), before - logistic(x, y, before).mean(axis=0), atol=1e-5)
    with pytest.raises(dpopt.BudgetError, match="3 steps"):
        next(iter(loader))


def test_correlated_noise_takes_slices_in_turn():
    x, y, (model, optimizer, loader) = linear(n=65, batch=16, steps=None, epochs=3, noise="correlated")
    assert len(loader) == 4
    seen = []
    for _ in range(3):
        for sample in loader:
            inputs, target = (part.numpy() for part in sample.reveal())
            before = flat(model)
            optimizer.step()
            assert np.allclose(flat(model), before - logistic(inputs, target, before).mean(axis=0), atol=1e-3)
            seen.append(inputs)
    assert optimizer.steps_left == 0
    for epoch in (seen[:4], seen[4:8], seen[8:]):
        assert np.array_equal(np.sort(np.concatenate(epoch), axis=0), np.sort(x, axis=0))
    assert all(np.array_equal(one, other) for one, other in zip(seen[:8], seen[4:]))
    with pytest.raises(dpopt.BudgetError, match="12 steps"):
        next(iter(loader))


def test_correlated_noise_is_tuned_for_the_momentum_and_costs_one_gaussian():
    x, y = (torch.from_numpy(part) for part in classes(60))
    spread = {}
    for momentum in (0.0, 0.9):
        torch.manual_seed(3)
        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=momentum)
        _, private, loader = make_private(
            model, optimizer, DataLoader(TensorDataset(x, y), batch_size=6), nn.BCEWithLogitsLoss(),
            max_grad_norm=1.0, adjacency="zero-out", epsilon=2.0, delta=1e-6, epochs=2, noise="correlated",
        )
        said = private.guarantee()
        assert 1.999 < said.epsilon <= 2.0
        spread[momentum] = said.event
        for _ in loader:
            private.step()
    # The noise is another one, and costs the same.
    assert dpopt.epsilon(spread[0.0], delta=1e-6, adjacency="zero-out") == dpopt.epsilon(spread[0.9], delta=1e-6, adjacency="zero-out")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (dict(noise="banded"), "'correlated'"),
        (dict(steps=4), "whole epochs"),
        (dict(epochs=None, steps=4), "whole epochs"),
        (dict(adjacency="add-remove", public_records=60), "dp-mf"),
    ],
)
def test_correlated_noise_that_no_run_can_have_is_refused(wrong, said):
    with pytest.raises((dpopt.DPUserError, dpopt.PlanError), match=said):
        linear(**{**dict(batch=6, steps=None, epochs=2, noise="correlated"), **wrong})


class Words(nn.Module):
    """Texts of six words out of many, and two numbers."""

    def __init__(self, words=400, padding_idx=None, **settings):
        super().__init__()
        self.words = nn.Embedding(words, 8, padding_idx=padding_idx, **settings)
        self.first, self.last = nn.Linear(8, 12), nn.Linear(14, 2)

    def forward(self, text, numbers):
        mean = self.first(self.words(text)).tanh().mean(dim=1)
        return self.last(torch.cat([mean, numbers], dim=1))


def texts(n=30, words=400):
    rng = np.random.default_rng(2)
    # Words that come twice in a text, and texts of one word.
    text = rng.integers(0, words, size=(n, 6))
    text[:, 1] = text[:, 0]
    text[0] = 5
    x = torch.tensor(rng.normal(size=(n, 2)), dtype=torch.float32)
    return torch.tensor(text), x, torch.tensor(rng.integers(0, 2, size=n))


@pytest.mark.parametrize("settings", [{}, dict(padding_idx=5), dict(max_norm=1.0), dict(scale_grad_by_freq=True)])
def test_gradients_of_words_are_sparse_and_those_of_each_text_alone(settings):
    torch.manual_seed(1)
    text, numbers, y = texts()
    model = Words(**settings)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    loader = DataLoader(TensorDataset(text, numbers, y), batch_size=30)
    try:
        _, private, loader = make_private(model, optimizer, loader, nn.CrossEntropyLoss(), **SMALL, steps=1)
    except dpopt.DPUserError:
        # It writes to its weights, or counts words.
        assert settings.keys() & {"max_norm", "scale_grad_by_freq"}
        return
    assert private._run.task.sparse == (not settings.keys() & {"max_norm", "scale_grad_by_freq"})
    clipped = 0
    for i in range(30):
        model.zero_grad()
        nn.functional.cross_entropy(model(text[i : i + 1], numbers[i : i + 1]), y[i : i + 1]).backward()
        gradient = flat(model, "grad")
        clipped = clipped + gradient / max(1.0, np.linalg.norm(gradient)) / 30
    before = flat(model)
    for _ in loader:
        private.step()
    assert np.allclose(before - flat(model), clipped, atol=1e-5)


def test_a_text_that_can_not_be_had_is_zero_and_words_are_no_rows_of_all():
    text, numbers, y = texts()
    text[3, 2] = 10_000
    model = Words(words=50_000)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    text[4, 2] = 50_000
    _, private, loader = make_private(
        model, optimizer, DataLoader(TensorDataset(text, numbers, y), batch_size=30), nn.CrossEntropyLoss(), **SMALL, steps=1, estimator=None
    )
    task = private._run.task
    assert task.dim > 400_000 and task.width < 5_000
    for _ in loader:
        private.step()
    assert np.isfinite(flat(model)).all()


def followed(estimator, gradients, points):
    """What an estimator makes of exact mean gradients: ``gradients[t](w)`` on the sample of step t."""
    value = None
    for t, (gradient, w) in enumerate(zip(gradients, points)):
        kept = estimator.kept(t)
        value = gradient(w) + (kept * (value - gradient(points[t - 1])) if kept else 0.0)
        yield value


@pytest.mark.parametrize("estimator", [Storm(forget=0.2, smoothness=30.0), Storm(forget=1.0, smoothness=1.0), Spider(restart=3, smoothness=30.0)])
def test_an_estimator_follows_the_gradient_by_its_changes(estimator):
    x, y, (model, optimizer, loader) = linear(steps=7, max_grad_norm=20.0, noise_multiplier=1e-7, estimator=estimator)
    ones = np.column_stack([x, np.ones(len(x))]).astype(np.float64)

    def gradient(w):
        return ((1 / (1 + np.exp(-ones @ w)) - y[:, 0])[:, None] * ones).mean(axis=0)

    points = [flat(model)]
    for _ in range(7):
        for _ in loader:
            optimizer.step()
            points.append(flat(model))
    expected = followed(estimator, [gradient] * 7, points)
    for before, after, value in zip(points, points[1:], expected):
        assert np.allclose(before - after, value, atol=2e-5)


def test_estimators_take_layers_by_factors_and_samples():
    torch.manual_seed(5)
    x, y = (torch.from_numpy(part) for part in classes(40, 32))
    model = nn.Sequential(nn.Linear(32, 24), nn.Tanh(), nn.Linear(24, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    estimator = Storm(forget=0.3, smoothness=100.0)
    _, private, loader = make_private(
        model, optimizer, DataLoader(TensorDataset(x, y), batch_size=20), nn.BCEWithLogitsLoss(),
        **{**SMALL, "max_grad_norm": 50.0}, steps=6, estimator=estimator, chunk=7,
    )
    assert private._run.task.factored
    points, gradients = [flat(model)], []
    for _ in range(3):
        for sample in loader:
            inputs, target = sample.reveal()
            twin = nn.Sequential(nn.Linear(32, 24), nn.Tanh(), nn.Linear(24, 1))

            def gradient(w, inputs=inputs, target=target, twin=twin):
                twin.zero_grad()
                nn.utils.vector_to_parameters(torch.from_numpy(w).float(), twin.parameters())
                nn.functional.binary_cross_entropy_with_logits(twin(inputs), target, reduction="sum").backward()
                # Over the expected size.
                return flat(twin, "grad") / 20

            gradients.append(gradient)
            private.step()
            points.append(flat(model))
    for before, after, value in zip(points, points[1:], followed(estimator, gradients, points)):
        assert np.allclose((before - after) / 0.05, value, atol=1e-3 * max(1.0, np.abs(value).max()))


def test_changes_are_clipped_by_how_far_the_point_moved_and_noise_goes_with_it():
    smoothness, n = 1e-3, 60
    x, y, (model, optimizer, loader) = linear(steps=9, estimator=Spider(restart=9, smoothness=smoothness))
    points = [flat(model)]
    for _ in range(9):
        for _ in loader:
            optimizer.step()
            points.append(flat(model))
    moves = np.diff(points, axis=0)
    for before, after in zip(moves, moves[1:]):
        # The steps are the estimates: what is new in one is within the clip.
        assert np.linalg.norm(after - before) <= 1.01 * smoothness * np.linalg.norm(before) + 1e-6
    # Of records whose gradients are zero nothing is left but the noise.
    scaled = []
    for _ in range(20):
        _, _, (model, optimizer, loader) = linear(
            steps=20, noise_multiplier=3.0, estimator=Spider(restart=20, smoothness=smoothness), criterion=lambda output, target: 0.0 * output.sum()
        )
        points = [flat(model)]
        for _ in range(20):
            for _ in loader:
                optimizer.step()
                points.append(flat(model))
        moves = np.diff(points, axis=0)
        for before, after in zip(moves, moves[1:]):
            scaled.append((after - before) * n / (3.0 * smoothness * np.linalg.norm(before)))
    # 1,900 squares of normals: six standard deviations.
    mean = np.square(scaled).mean()
    assert abs(mean - 1.0) < 6 * (2 / 1900) ** 0.5, mean


def test_an_estimator_costs_what_gradients_cost():
    said = [
        linear(steps=5, noise_multiplier=None, epsilon=1.0, delta=1e-6, estimator=estimator)[2][1].guarantee()
        for estimator in (None, Storm(forget=0.5, smoothness=1.0), Spider(restart=2, smoothness=1.0))
    ]
    assert len({(one.epsilon, one.accountant) for one in said}) == 1


def test_a_point_that_does_not_move_and_one_that_is_not_finite_have_a_clip():
    x, y, (model, optimizer, loader) = linear(steps=4, lr=0.0, estimator=Storm(forget=0.1, smoothness=1.0))
    for _ in range(2):
        for _ in loader:
            optimizer.step()
    with torch.no_grad():
        model.weight[0, 0] = float("nan")
    for _ in range(2):
        for _ in loader:
            optimizer.step()
    assert optimizer.steps_left == 0


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: dict(estimator="storm"), "Storm or a Spider"),
        (lambda: dict(estimator=Storm(forget=0.5, smoothness=1.0), noise="correlated", epochs=2, steps=None), "noise='independent'"),
        (lambda: dict(estimator=Storm(forget=0.0, smoothness=1.0)), "forget"),
        (lambda: dict(estimator=Spider(restart=0, smoothness=1.0)), "restart"),
        (lambda: dict(estimator=Spider(restart=2, smoothness=float("nan"))), "smoothness"),
    ],
)
def test_estimators_that_no_run_can_have_are_refused(wrong, said):
    with pytest.raises(dpopt.DPUserError, match=said):
        linear(**wrong())


@pytest.mark.parametrize(("adjacency", "size"), [("zero-out", 1.0), ("replace-one", 1.0)])
def test_noise_has_the_stated_law(adjacency, size):
    residuals = []
    for _ in range(10):
        x, y, (model, optimizer, loader) = linear(noise_multiplier=2.0, adjacency=adjacency, steps=40)
        for _ in range(40):
            for _ in loader:
                before = flat(model)
                optimizer.step()
                residuals.append(before - logistic(x, y, before).mean(axis=0) - flat(model))
        said = optimizer.guarantee(1e-6)
        assert said.event == dpopt.Event.gaussian(2.0 if adjacency == "zero-out" else 1.0).repeated(40)
    # Over the clip: 2 x 1 over 60 records. 2,000 draws; each test is wrong once in 1e6.
    z = np.concatenate(residuals) / (2.0 * size / 60)
    assert stats.kstest(z, "norm").pvalue > 1e-6
    assert abs(stats.chi2(len(z)).cdf((z**2).sum()) - 0.5) < 0.5 - 5e-7


def test_samples_are_poisson_and_means_are_over_the_public_size():
    # A loss whose gradient is 1 for the bias: the release counts the sample.
    counts = []
    x, y, (model, optimizer, loader) = linear(
        n=200, batch=40, criterion=lambda out, _: out.sum() - out.sum().detach(), steps=200, adjacency="add-remove", public_records=400,
        max_grad_norm=1e3, chunk=7,
    )  # fmt: skip
    assert len(loader) == 10
    for _ in range(20):
        for sample in loader:
            before = model.bias.item()
            drawn = sample.reveal()
            optimizer.step()
            counts.append((before - model.bias.item()) * 40)
            assert counts[-1] == pytest.approx(len(drawn[0]), abs=0.5)
    # Rate 40 of 400, 200 records, 200 steps: 40,000 coins at .1; five deviations, wrong once in 1e6.
    assert abs(sum(counts) - 4000) < 5 * np.sqrt(40_000 * 0.09) + 10


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_the_epsilon_is_that_of_another_accountant(adjacency):
    import dp_accounting as their
    from dp_accounting.pld import PLDAccountant

    relation = {"add-remove": "ADD_OR_REMOVE_ONE", "replace-one": "REPLACE_ONE"}[adjacency]
    public = dict(public_records=1000) if adjacency == "add-remove" else {}
    _, _, (_, optimizer, _) = linear(n=1000, batch=50, steps=None, epochs=5, noise_multiplier=2.0, adjacency=adjacency, **public)
    event = their.SelfComposedDpEvent(their.PoissonSampledDpEvent(0.05, their.GaussianDpEvent(2.0)), 100)
    found = PLDAccountant(their.NeighboringRelation[relation]).compose(event).get_epsilon(1e-5)
    assert optimizer.guarantee(1e-5).epsilon == pytest.approx(found, rel=5e-3)


def test_the_noise_is_that_of_opacus():
    opacus = pytest.importorskip("opacus.accountants.utils")
    _, _, (_, optimizer, _) = linear(
        n=1000, batch=50, steps=None, epochs=5, noise_multiplier=None, epsilon=2.0, delta=1e-5, adjacency="add-remove", public_records=1000
    )
    theirs = opacus.get_noise_multiplier(target_epsilon=2.0, target_delta=1e-5, sample_rate=0.05, epochs=5, accountant="prv", epsilon_tolerance=1e-3)
    assert optimizer.noise_multiplier == pytest.approx(theirs, rel=1e-2)
    assert optimizer.guarantee().epsilon <= 2.0


class Batchwise(nn.Module):
    """A layer that takes a mean over its batch."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x):
        out = self.linear(x)
        return out - 0.5 * out.mean(dim=0)


class Tied(nn.Module):
    """One matrix twice."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)
        self.second.weight = self.first.weight

    def forward(self, x):
        return self.second(torch.tanh(self.first(x)))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(11, 8)
        self.attend = nn.MultiheadAttention(8, 2, batch_first=True)
        self.norm = nn.LayerNorm(8)
        self.out = nn.Linear(8, 3)

    def forward(self, x):
        x = self.words(x)
        return self.out(self.norm(self.attend(x, x, x)[0]).mean(dim=1))


def convolution():
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.MaxPool2d(2), nn.InstanceNorm2d(4, affine=True), nn.Flatten(), nn.Linear(36, 3)
    )


def eval_batch_norm():
    model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 3))
    with torch.no_grad():
        model[1].running_mean.uniform_(-1, 1)
    return model.eval()


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.widen, self.layer, self.out = nn.Linear(4, 32), nn.Linear(32, 32), nn.Linear(32, 3)

    def forward(self, x):
        return self.out(self.layer(torch.tanh(self.layer(torch.tanh(self.widen(x))))))


class Elsewhere(Twice):
    """The weights of a layer are used by its side too."""

    def forward(self, x):
        x = torch.tanh(self.widen(x))
        return self.out(self.layer(x) + x @ self.layer.weight)


class Places(Twice):
    """A layer sees several places of a record."""

    def forward(self, x):
        return self.out(self.layer(torch.tanh(self.widen(torch.stack([x, 2 * x], dim=1)))).mean(dim=1))


class Frozen(Twice):
    """One layer has biases that are not trained, one has none."""

    def __init__(self):
        super().__init__()
        self.layer.bias.requires_grad_(False)
        self.last = nn.Linear(32, 32, bias=False)

    def forward(self, x):
        return self.out(self.last(torch.tanh(self.layer(torch.tanh(self.widen(x))))))


def wide():
    return nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 48), nn.Tanh(), nn.Linear(48, 16), nn.Tanh(), nn.Linear(16, 3))


def odd_convolutions():
    """With a step, a margin, holes, no square, no bias, and one that is by groups."""
    return nn.Sequential(
        nn.Conv2d(1, 4, (3, 2), stride=(1, 2), padding=(2, 1), dilation=(2, 1)), nn.Tanh(), nn.Conv2d(4, 6, 3, bias=False), nn.Tanh(),
        nn.Conv2d(6, 6, 2, groups=2), nn.Flatten(), nn.LazyLinear(3),
    )  # fmt: skip


def laid_out():
    model = odd_convolutions()
    model(torch.zeros(1, 1, 8, 8))
    return model


#: Layers whose gradients follow from inputs and outputs.
FACTORED = {"wide": ["0", "2", "4"], "frozen": ["widen", "last"], "twice": ["widen"], "elsewhere": ["widen"], "places": [], "odd convolutions": ["0", "2"]}
NETWORKS = {
    "wide": (wide, "rows"),
    "frozen": (Frozen, "rows"),
    "twice": (Twice, "rows"),
    "elsewhere": (Elsewhere, "rows"),
    "places": (Places, "rows"),
    "odd convolutions": (laid_out, "images"),
    "perceptron": (lambda: nn.Sequential(nn.Linear(4, 8), nn.ReLU(inplace=True), nn.Linear(8, 3)), "rows"),
    "dropout": (lambda: nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 3)), "rows"),
    "batch normalisation in eval": (eval_batch_norm, "rows"),
    "a mean over the batch": (Batchwise, "rows"),
    "tied": (Tied, "rows"),
    "convolution": (convolution, "images"),
    "attention": (Attention, "words"),
}
#: Its rows are not what autograd finds of a record alone, as masks are drawn.
RANDOM = {"dropout"}


def records(kind, n, seed=0):
    rng = torch.Generator().manual_seed(seed)
    x = {
        "rows": lambda: torch.randn(n, 4, generator=rng),
        "images": lambda: torch.randn(n, 1, 8, 8, generator=rng),
        "words": lambda: torch.randint(11, (n, 5), generator=rng),
    }[kind]()
    return TensorDataset(x, torch.randint(3, (n,), generator=rng))


def contributions(model, data, criterion=None, chunk=8, **settings):
    """What each record adds to a sum, before the clip."""
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    criterion = criterion or nn.CrossEntropyLoss()
    _, private, _ = make_private(
        model, optimizer, DataLoader(data, batch_size=8), criterion, **{**SMALL, "steps": 1, "chunk": chunk, **settings}
    )
    task = private._run.task
    parts = [task.contributions(np.arange(start, min(start + chunk, len(data))), chunk, 5) for start in range(0, len(data), chunk)]
    return np.concatenate([task.matrices(part) for part in parts])


@pytest.mark.parametrize("name", NETWORKS)
def test_gradients_are_those_of_each_record_alone(name):
    torch.manual_seed(0)
    network, kind = NETWORKS[name]
    model, data = network(), records(kind, 20)
    rows = contributions(model, data)
    assert rows.dtype == np.float32 and np.isfinite(rows).all() and np.abs(rows).max() > 1e-3
    if name in RANDOM:
        return
    for i, row in enumerate(rows):
        model.zero_grad()
        nn.functional.cross_entropy(model(data.tensors[0][i : i + 1]), data.tensors[1][i : i + 1]).backward()
        trained = [p for p in model.parameters() if p.requires_grad]
        alone = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in trained]).numpy()
        assert np.allclose(row, alone, atol=1e-5)


@pytest.mark.parametrize("name", FACTORED)
def test_layers_that_are_used_once_need_no_pass_for_their_weights(name):
    network, kind = NETWORKS[name]
    model = network()
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    _, private, _ = make_private(model, optimizer, DataLoader(records(kind, 20), batch_size=8), nn.CrossEntropyLoss(), steps=1, **SMALL)
    assert list(private._run.task._layers) == FACTORED[name]
    # Nothing of the search is left.
    assert not any(layer._forward_hooks for layer in model.modules())


def test_a_step_on_outer_products_clips_the_whole_gradient():
    torch.manual_seed(0)
    model, data = wide(), records("rows", 20)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    _, private, loader = make_private(
        model, optimizer, DataLoader(data, batch_size=20), nn.CrossEntropyLoss(), steps=1, **{**SMALL, "max_grad_norm": 1.5}
    )
    rows = []
    for x, y in zip(*data.tensors):
        model.zero_grad()
        nn.functional.cross_entropy(model(x[None]), y[None]).backward()
        rows.append(flat(model, "grad"))
    rows = np.array(rows)
    long = np.linalg.norm(rows, axis=1)
    assert long.min() < 1.5 < long.max()
    clipped = rows * np.minimum(1, 1.5 / long)[:, None]
    before = flat(model)
    for _ in loader:
        private.step()
    # Factors are rounded: by less than a thousandth of the clip for each record.
    assert np.abs(before - clipped.mean(axis=0) - flat(model)).max() < 1.5e-3
    assert np.linalg.norm(before - clipped.mean(axis=0) - flat(model)) < 1.5e-3


def test_a_layer_that_is_left_out_later_is_taken_whole_from_then_on():
    class Skips(Twice):
        def forward(self, x):
            x = torch.tanh(self.widen(x))
            return self.out(self.layer(x) if self.training else x)

    model = Skips()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    _, private, loader = make_private(
        model, optimizer, DataLoader(records("rows", 20), batch_size=8), nn.CrossEntropyLoss(), steps=3, **SMALL
    )
    assert list(private._run.task._layers) == ["widen", "layer"]
    model.eval()
    for _ in loader:
        private.step()
        assert not private._run.task._layers
        model.train()
    assert private.steps_left == 0


def keeps_rows(rows_of, data):
    """Whether each row is bit for bit the same whatever another record holds, and where it has none."""
    rows = rows_of(data)
    same = np.delete(np.arange(len(rows)), 3)
    for tensor, value in ((0, 7), (1, 77)):
        other = TensorDataset(*(tensor.clone() for tensor in data.tensors))
        other.tensors[tensor][3] = value
        if not np.array_equal(rows[same], rows_of(other)[same]):
            return False
    return True


def pure(rows_of, data):
    """Whether each row is a function of its record: as above, and wherever it stands."""
    rows = rows_of(data)
    if not keeps_rows(rows_of, data):
        return False
    same = np.delete(np.arange(len(rows)), 3)
    without = TensorDataset(*(torch.cat([tensor[:3], tensor[4:]]) for tensor in data.tensors))
    return np.array_equal(rows[same], rows_of(without))


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("n", [20, 17])
def test_no_record_changes_the_row_of_another(name, n):
    torch.manual_seed(0)
    network, kind = NETWORKS[name]
    model = network()
    # Not wherever it stands: of some widths kernels of some processors round by the place.
    assert keeps_rows(lambda data: contributions(model, data), records(kind, n))


def test_a_loss_that_takes_the_batch_sees_one_record():
    def mixing(out, target):
        return nn.functional.cross_entropy(out - out.mean(dim=0), target) + (out.std(dim=0, unbiased=False).sum() + out.sum()) * len(out)

    torch.manual_seed(0)
    model, data = nn.Linear(4, 3), records("rows", 20)
    assert pure(lambda data: contributions(model, data, mixing), data)


def by_autograd(model, criterion):
    """A broken twin: the gradients of the sum, record by record, of one pass of the whole batch."""

    def rows_of(data):
        losses = criterion(model(data.tensors[0]), data.tensors[1])
        found = [torch.autograd.grad(loss, list(model.parameters()), retain_graph=True) for loss in losses]
        return np.array([np.concatenate([g.numpy().ravel() for g in row]) for row in found])

    return rows_of


def test_twins_that_mix_records_are_caught():
    each = nn.CrossEntropyLoss(reduction="none")
    torch.manual_seed(0)
    data = records("rows", 20)
    assert not pure(by_autograd(Batchwise(), each), data)
    assert not pure(by_autograd(nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 3)), each), data)
    assert not pure(by_autograd(nn.Linear(4, 3), lambda out, y: each(out - out.mean(dim=0), y)), data)


def test_a_twin_whose_masks_are_of_places_is_caught(monkeypatch):
    real = torch.func.vmap
    monkeypatch.setattr(dpopt.torch, "vmap", lambda f, in_dims, randomness: real(f, in_dims=in_dims, randomness="different"))
    torch.manual_seed(0)
    model = NETWORKS["dropout"][0]()
    assert not pure(lambda data: contributions(model, data), records("rows", 20))


def test_a_twin_whose_shapes_are_of_samples_is_caught(monkeypatch):
    """Matrix products of some sizes round otherwise than those of one row fewer."""
    real = dpopt.torch._Task.contributions
    monkeypatch.setattr(
        dpopt.torch._Task, "contributions", lambda task, positions, _, seed: real(task, positions, len(positions), seed)
    )
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(40, 64), nn.Tanh(), nn.Linear(64, 3))
    every = TensorDataset(torch.randn(40, 40), torch.randint(3, (40,)))
    of = [TensorDataset(*(tensor[:n] for tensor in every.tensors)) for n in range(4, 40)]
    assert not all(pure(lambda data: contributions(model, data, chunk=len(data)), data) for data in of)


class Odd(Dataset):
    """Records of which some can't be had."""

    def __init__(self, data, odd):
        self.data, self.odd = data, odd

    def __len__(self):
        return len(self.data)

    def __getitem__(self, i):
        x, y = self.data[i]
        what = self.odd.get(i)
        if what == "raises":
            raise OSError("no such file")
        return {None: (x, y), "long": (torch.zeros(9), y), "NaN": (x * torch.nan, y), "class": (x, y * 0 + 77), "text": ("x", y), "type": (x.double(), y)}[what]


@pytest.mark.parametrize("what", ["raises", "long", "NaN", "class", "text", "type"])
def test_an_odd_record_is_its_own_affair(what):
    torch.manual_seed(0)
    model, data = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 3)), records("rows", 20)
    rows, odd = contributions(model, Odd(data, {})), contributions(model, Odd(data, {4: what, 19: what}))
    # By way of each record, as by way of tensors.
    assert np.array_equal(rows, contributions(model, data))
    usual = np.delete(np.arange(20), [4, 19])
    assert np.array_equal(rows[usual], odd[usual])
    # A row that is not finite counts as zero.
    assert not np.isfinite(odd[[4, 19]]).all(axis=1).any() if what in ("NaN", "class") else np.all(odd[[4, 19]] == 0)


def test_transforms_draw_by_the_step_alone():
    class Noisy(Odd):
        def __getitem__(self, i):
            x, y = self.data[i]
            return x + torch.randn(4), y

    torch.manual_seed(0)
    model, data = nn.Linear(4, 3), records("rows", 20)
    state = torch.get_rng_state()
    rows = contributions(model, Noisy(data, {}))
    later = TensorDataset(*(tensor[1:] for tensor in data.tensors))
    assert np.array_equal(rows[1:], contributions(model, Noisy(later, {})))
    torch.set_rng_state(state)


def test_shared_and_frozen_parameters():
    torch.manual_seed(0)
    model = Tied()
    model.first.bias.requires_grad = False
    kept = model.first.bias.clone()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1, weight_decay=0.5)
    _, optimizer, loader = make_private(model, optimizer, DataLoader(records("rows", 20), batch_size=20), nn.CrossEntropyLoss(), steps=2, **SMALL)
    for _ in range(2):
        for _ in loader:
            optimizer.step()
    assert torch.equal(model.first.bias, kept)
    assert model.second.weight is model.first.weight


def test_optimisers_and_schedules_of_torch():
    torch.manual_seed(0)
    x, y = classes(2000)
    data = TensorDataset(torch.from_numpy(x), torch.from_numpy(y))
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    model, optimizer, loader = make_private(
        model, optimizer, DataLoader(data, batch_size=100, shuffle=True), nn.BCEWithLogitsLoss(), max_grad_norm=1.0, epsilon=3.0, delta=1e-5,
        epochs=5, adjacency="add-remove", public_records=2000,
    )  # fmt: skip
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    for _ in range(5):
        for _ in loader:
            optimizer.zero_grad()
            optimizer.step()
        schedule.step()
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.05 / 32)
    assert optimizer.guarantee().epsilon <= 3.0
    with torch.no_grad():
        right = ((model(data.tensors[0]) > 0).float() == data.tensors[1]).float().mean()
    # One in two is by chance; the noise of epsilon 3 costs little here.
    assert right > 0.9
    optimizer.load_state_dict(optimizer.state_dict())


def test_records_of_any_shape():
    class Rows(Dataset):
        def __len__(self):
            return 20

        def __getitem__(self, i):
            return {"x": torch.full((4,), i / 20), "weight": torch.tensor(2.0 if i % 2 else 0.0), "y": i % 3}

    model = nn.Linear(4, 3)
    loss = lambda model, record: (record["weight"] * nn.functional.cross_entropy(model(record["x"]), record["y"], reduction="none")).sum()  # noqa: E731
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    _, private, loader = make_private(model, optimizer, DataLoader(Rows(), batch_size=20), loss=loss, steps=1, **SMALL)
    rows = private._run.task.matrices(private._run.task.contributions(np.arange(20), 20, 0))
    assert np.all(rows[::2] == 0) and np.all(np.abs(rows[1::2]).max(axis=1) > 0)
    for sample in loader:
        assert set(sample.reveal()) == {"x", "weight", "y"}
        private.step()


def test_the_page_runs_as_printed():
    rng = np.random.default_rng(0)
    rows = rng.uniform(0, 1, (300, 3))
    scope = {"low": np.zeros(3), "high": np.ones(3), "X": rows, "y": np.where(rows[:, 0] > 0.5, "yes", "no"), "X_new": rows[:5]}
    page = pathlib.Path(__file__).parents[3] / "docs/python.md"
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.S):
        exec(block, scope)
    assert scope["optimizer"].guarantee().epsilon <= 3.0
