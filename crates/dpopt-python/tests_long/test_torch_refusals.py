"""What is refused, before anything is charged; ledgers, interrupts and forks."""

import copy
import os
import pickle
import subprocess
import sys
import warnings

import dpopt
import numpy as np
import pytest
import torch
from dpopt.torch import make_private
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset, RandomSampler, SequentialSampler, TensorDataset, WeightedRandomSampler

DATA = TensorDataset(torch.linspace(-1, 1, 80).reshape(20, 4), torch.arange(20) % 3)
BUDGET = dict(epsilon=1.0, delta=1e-6, adjacency="zero-out", max_grad_norm=1.0, steps=4)


@pytest.fixture
def ledger(tmp_path):
    return dpopt.Ledger(tmp_path / "ledger.jsonl", epsilon=1.1, delta=1e-5, adjacency="zero-out", filter="gdp")


def untouched(ledger):
    """Whether its whole budget is still there: a run that takes nearly all of it fits."""
    dpopt.PrivateSteps(records=5, dim=1, clip=1.0, steps=1, adjacency="zero-out", epsilon=1.05, delta=1e-5, ledger=ledger).settle()
    return True


def private(ledger=None, model=None, loader=None, criterion=None, optimizer=None, **settings):
    model = nn.Linear(4, 3) if model is None else model
    if optimizer is None:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(DATA, batch_size=20) if loader is None else loader
    if "loss" not in settings:
        criterion = criterion or nn.CrossEntropyLoss()
    return make_private(model, optimizer, loader, criterion, ledger=ledger, **{**BUDGET, **settings})


class Counting(nn.Module):
    """A layer that keeps a mean of what it saw."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, x):
        self.seen += x.mean(dim=0)
        return self.linear(x)


class Deciding(nn.Module):
    """A layer whose path depends on a value."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x):
        return self.linear(x) if x.sum() > 0 else self.linear(-x)


class Kept(nn.Module):
    """A layer that keeps what it saw for the next call."""

    def __init__(self):
        super().__init__()
        self.linear, self.before = nn.Linear(4, 3), None

    def forward(self, x):
        before, self.before = self.before, x
        return self.linear(x if before is None else x + before)


class Last(nn.Module):
    """What a recurrent layer says at the last of four places."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer(1, 3, batch_first=True)

    def forward(self, x):
        return self.layer(x[..., None])[0][:, -1]


LAYERS = {
    "BatchNorm1d": lambda: nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)),
    r"1 \(BatchNorm1d\)": lambda: nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3, track_running_stats=False)).eval(),
    "SyncBatchNorm": lambda: nn.Sequential(nn.Linear(4, 3), nn.SyncBatchNorm(3)),
    "InstanceNorm1d": lambda: nn.Sequential(nn.Linear(4, 3), nn.InstanceNorm1d(3, track_running_stats=True)),
    "model.module": lambda: nn.DataParallel(nn.Linear(4, 3)),
    "gradient of one record": Counting,
    "can't take the gradient": Deciding,
    "bfloat16": lambda: nn.Linear(4, 3).bfloat16(),
    "float16": lambda: nn.Linear(4, 3).half(),
    r"\(GRU\); write the steps of such a layer out with nn.Linear": lambda: Last(nn.GRU),
    r"0 \(LSTMCell\); write": lambda: nn.Sequential(nn.LSTMCell(4, 3)),
    "no shape yet": lambda: nn.LazyLinear(3),
    "frozen": lambda: nn.Linear(4, 3).requires_grad_(False),
    "torch.nn.Module": lambda: torch.nn.functional.relu,
}


@pytest.mark.parametrize("said", LAYERS)
def test_layers_that_mix_or_keep_are_refused_by_name(said, ledger):
    model = LAYERS[said]()
    optimizer = torch.optim.SGD(nn.Linear(1, 1).parameters() if not isinstance(model, nn.Module) else model.parameters(), lr=0.1)
    with pytest.raises(dpopt.DPUserError, match=said):
        private(ledger, model, optimizer=optimizer)
    assert untouched(ledger)


def test_what_a_layer_kept_of_a_record_does_not_reach_another():
    torch.manual_seed(0)
    model = Kept()
    task = private(model=model)[1]._run.task
    rows = [task.contributions(np.arange(start, start + 4), 4, 0)[0][1] for start in (0, 4)]
    assert model.before is None
    alone = private(model=model)[1]._run.task
    assert np.array_equal(rows[1], alone.contributions(np.arange(4, 8), 4, 0)[0][1])


class Listing(Kept):
    """The same in a list, which no one can undo."""

    def __init__(self):
        super().__init__()
        self.kept = []

    def forward(self, x):
        found = self.linear(x + self.kept[-1] if self.kept else x)
        self.kept.append(x.detach())
        return found


def test_what_is_kept_elsewhere_is_refused(ledger):
    seen = []

    def remembering(out, target):
        seen.append(out.detach())
        return nn.functional.cross_entropy(out * len(seen), target)

    with pytest.raises(dpopt.DPUserError, match="keeps something"):
        private(ledger, criterion=remembering)
    with pytest.raises(dpopt.DPUserError, match="keeps something|gradient of one record"):
        private(ledger, Listing())
    assert untouched(ledger)


class Stream(IterableDataset):
    def __iter__(self):
        return iter(DATA)


class Words(Dataset):
    def __len__(self):
        return 20

    def __getitem__(self, i):
        return "text", i % 3


LOADERS = {
    "DataLoader, not list": lambda: [DATA[0]],
    "Stream is no data set": lambda: DataLoader(Stream(), batch_size=5),
    "batch sampler of its own": lambda: DataLoader(DATA, batch_sampler=iter([[0, 1]])),
    "BatchSampler|batch sampler|SequentialSampler": lambda: DataLoader(DATA, sampler=BatchSampler(SequentialSampler(DATA), 5, False), batch_size=None),
    "WeightedRandomSampler": lambda: DataLoader(DATA, sampler=WeightedRandomSampler([1.0] * 20, 20), batch_size=5),
    "num_workers=2": lambda: DataLoader(DATA, batch_size=5, num_workers=2),
    "made of tensors": lambda: DataLoader(Words(), batch_size=5),
    "one row": lambda: DataLoader(DATA, batch_size=5, collate_fn=lambda records: records[0]),
    "expected|dtype|gradient of one record": lambda: DataLoader(TensorDataset(DATA.tensors[0].double(), DATA.tensors[1]), batch_size=5),
    r"num_samples=7\) would be ignored": lambda: DataLoader(DATA, batch_size=5, sampler=RandomSampler(DATA, num_samples=7)),
    "inputs and a target": lambda: DataLoader(TensorDataset(DATA.tensors[0]), batch_size=5),
}


@pytest.mark.parametrize("said", LOADERS)
def test_loaders_that_are_no_poisson_samples_are_refused(said, ledger):
    with pytest.raises(dpopt.DPUserError, match=said):
        private(ledger, loader=LOADERS[said]())
    assert untouched(ledger)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (dict(steps=None), "epochs= or steps="),
        (dict(epochs=1), "epochs= or steps="),
        (dict(epsilon=None), "epsilon="),
        (dict(delta=None), "delta="),
        (dict(noise_multiplier=1.0), "or noise_multiplier="),
        (dict(max_grad_norm=0.0), "0"),
        (dict(max_grad_norm="1"), "clip is a number"),
        (dict(adjacency="add-remove"), "public_records="),
        (dict(adjacency="unbounded"), "add-remove"),
        (dict(public_records=19), "19"),
        (dict(chunk=0), "chunk"),
        (dict(criterion=nn.CrossEntropyLoss(weight=torch.ones(3))), "cancels"),
        (dict(criterion=nn.CrossEntropyLoss(reduction="none"), loss=lambda model, record: 0), "criterion"),
        (dict(loss=None, criterion=None), "criterion"),
        (dict(loss=lambda model, record: 0.0), "one number"),
        (dict(loss=lambda model, record: model(record[0])), "one number"),
        (dict(loss=lambda model, record: model(record[0]).sum().item()), "gradient of one record"),
        (dict(loss=lambda model, record: (-1.0 - model(record[0]).square().sum()).log()), "loss of every made-up record"),
        (dict(loss=lambda model, record: (model(record[0]).sum() - 1e4).sqrt()), "loss of every made-up record"),
        (dict(loss=lambda model, record: model(record[0]).sum() * torch.nan), "loss of every made-up record"),
        (dict(loss=lambda model, record: torch.linalg.inv(torch.outer(*[model(record[0])[0]] * 2)).sum()), "raises an error on some values|gradient of one record"),
        (dict(loss=lambda model, record: torch.linalg.eigh(torch.outer(*[model(record[0])[0]] * 2))[0].sum()), "raises an error on some values"),
    ],
)
def test_what_is_wrong_is_said_before_it_costs(settings, said, ledger):
    with pytest.raises(dpopt.Error, match=said):
        private(ledger, **settings)
    assert untouched(ledger)


@pytest.mark.parametrize(
    ("settings", "said"),
    [(dict(delta=0.1), "delta 1e-1"), (dict(epsilon=None, delta=None, noise_multiplier=1e-6), "noise_multiplier=1e-06"), (dict(epsilon=12.0), "epsilon 12")],
)
def test_a_weak_budget_is_warned_of_before_it_costs(settings, said, ledger):
    with warnings.catch_warnings():
        warnings.simplefilter("error", dpopt.WeakGuaranteeWarning)
        with pytest.raises(dpopt.WeakGuaranteeWarning, match=said):
            private(ledger, **settings)
    assert untouched(ledger)


def test_optimisers_that_are_refused(ledger):
    model = nn.Linear(4, 3)
    for optimizer, said in [
        (torch.optim.LBFGS(model.parameters()), "LBFGS"),
        (torch.optim.SGD([*model.parameters(), nn.Parameter(torch.zeros(2))], lr=0.1), "the model has not"),
        ("sgd", "not str"),
        (private()[1], "private already"),
    ]:
        with pytest.raises(dpopt.DPUserError, match=said):
            private(ledger, model, optimizer=optimizer)
    assert untouched(ledger)
    _, optimizer, _ = private(model=model)
    with pytest.raises(dpopt.DPUserError, match="closure"):
        optimizer.step(lambda: 0.0)
    with pytest.raises(dpopt.DPUserError, match="all of them"):
        optimizer.add_param_group({"params": []})
    with pytest.raises(dpopt.DPUserError, match="no sample"):
        optimizer.step()


def test_what_changes_later_is_refused_before_the_next_draw():
    model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 3)).eval()
    _, optimizer, loader = private(model=model)
    next(iter(loader))
    optimizer.step()
    model.train()
    with pytest.raises(dpopt.DPUserError, match="BatchNorm1d"):
        next(iter(loader))
    model.eval()
    model[0].weight.requires_grad = False
    with pytest.raises(dpopt.DPUserError, match="other parameters"):
        next(iter(loader))
    model[0].weight.requires_grad = True
    next(iter(loader))
    optimizer.step()
    assert optimizer.settle().releases == 2


def test_a_ledger_pays_for_all_steps_at_once(ledger):
    _, optimizer, loader = private(ledger)
    # Two of them are more than there is.
    with pytest.raises(dpopt.BudgetError):
        private(ledger)
    next(iter(loader))
    optimizer.step()
    with pytest.raises(dpopt.BudgetError):
        private(ledger)
    assert optimizer.steps_left == 3
    assert optimizer.settle().releases == 1 and optimizer.steps_left == 0
    with pytest.raises(dpopt.BudgetError, match="4 steps"):
        next(iter(loader))
    # What it did not use went back.
    _, optimizer, loader = private(ledger)
    for _ in range(4):
        for _ in loader:
            optimizer.step()
    # The last step settles.
    assert optimizer.steps_left == 0
    with pytest.raises(dpopt.BudgetError):
        private(ledger)


def test_an_interrupted_step_is_paid_for_and_forgotten():
    class Slow(Dataset):
        stop = False

        def __len__(self):
            return 20

        def __getitem__(self, i):
            if self.stop and i > 10:
                raise KeyboardInterrupt
            return DATA[i]

    data = Slow()
    model, optimizer, loader = private(loader=DataLoader(data, batch_size=20))
    before = model.weight.detach().clone()
    steps = iter(loader)
    next(steps)
    data.stop = True
    with pytest.raises(KeyboardInterrupt):
        optimizer.step()
    data.stop = False
    assert torch.equal(model.weight, before)
    with pytest.raises(dpopt.DPUserError, match="no sample"):
        optimizer.step()
    # A sample that is left out is as one that was interrupted.
    for _ in loader:
        pass
    for _ in loader:
        optimizer.step()
        break
    assert not torch.equal(model.weight, before)
    assert optimizer.settle().releases >= 2


def test_steps_are_not_copied():
    _, optimizer, loader = private()
    sample = next(iter(loader))
    for secret in [optimizer, loader, sample]:
        for copied in [copy.deepcopy, pickle.dumps]:
            with pytest.raises(dpopt.DPUserError, match="cop"):
                copied(secret)
    assert "SGD" in repr(optimizer) and "3 of 4" in repr(optimizer)


def test_a_forked_child_can_not_go_on_with_the_steps_of_its_parent():
    if not hasattr(os, "fork"):
        pytest.skip("no fork here")
    code = (
        "import os, dpopt, torch\n"
        "from dpopt.torch import make_private\n"
        "from torch.utils.data import DataLoader, TensorDataset\n"
        "torch.set_num_threads(1)\n"
        "data = TensorDataset(torch.zeros(6, 2), torch.zeros(6, dtype=torch.long))\n"
        "model = torch.nn.Linear(2, 2)\n"
        "_, optimizer, loader = make_private(model, torch.optim.SGD(model.parameters(), lr=.1), DataLoader(data, batch_size=6),\n"
        "    torch.nn.CrossEntropyLoss(), max_grad_norm=1., noise_multiplier=1., steps=2, adjacency='zero-out', threads=1)\n"
        "next(iter(loader))\n"
        "pid = os.fork()\n"
        "try:\n"
        "    optimizer.step()\n"
        "    print('parent' if pid else 'child', flush=True)\n"
        "except dpopt.BudgetError:\n"
        "    print('refused', flush=True)\n"
        "if pid == 0:\n"
        "    os._exit(0)\n"
        "os.waitpid(pid, 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], env=os.environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["parent", "refused"]
