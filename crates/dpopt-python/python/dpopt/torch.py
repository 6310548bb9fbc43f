"""Networks of PyTorch under differential privacy, in the shape that users of Opacus know.

torch works out one gradient for each record; who is drawn, the clip, the exact sum, the exact noise and the payment are those of
:class:`dpopt.PrivateSteps`. The argument is in ``docs/privacy/interfaces.md``.
"""

import contextlib
import threading
import warnings
from collections.abc import Mapping

import numpy as np

try:
    import torch
    from torch import nn
    from torch.func import functional_call, grad, vmap
    from torch.utils.data import DataLoader, IterableDataset, RandomSampler, SequentialSampler, TensorDataset, default_collate
except ImportError as missing:
    raise ImportError("dpopt.torch needs PyTorch 2.2 or later: pip install 'dpopt[torch]', or torch. The rest of dpopt works without it") from missing

from ._estimate import Estimate, Follows, Spider, Storm
from ._guards import Guarded
from ._layers import NotOnce, alone, candidates, close, dense, equal, sparse, sparse_numbers, tapped, watched
from ._schedule import Schedule, chunk_rows, chunks, split
from ._steps import PrivateSteps
from ._values import count, maybe, real, warn_of_ledger
from .errors import BudgetError, DPUserError

#: What ends a step, whatever a record does; a panic of an extension is no `Exception` either, and is its record's affair.
ENDS = (KeyboardInterrupt, SystemExit, GeneratorExit)

__all__ = ["PrivateLoader", "PrivateOptimizer", "Sample", "Spider", "Storm", "make_private"]


def make_private(
    model,
    optimizer,
    data_loader,
    criterion=None,
    *,
    loss=None,
    max_grad_norm,
    adjacency,
    epochs=None,
    steps=None,
    epsilon=None,
    delta=None,
    noise_multiplier=None,
    noise_over="clip",
    noise="independent",
    estimator=None,
    public_records=None,
    ledger=None,
    threads=None,
    chunk=None,
):
    """Returns the model, an optimiser and a loader that train it privately::

        model, optimizer, loader = make_private(model, optimizer, loader, nn.CrossEntropyLoss(), max_grad_norm=1.0,
                                                epsilon=3.0, delta=1e-5, epochs=10, adjacency="zero-out")
        for epoch in range(10):
            for sample in loader:
                optimizer.step()
        print(optimizer.guarantee())

    ``criterion(output, target)`` compares what the model says of a record with the last thing of the record; or ``loss(model, record)`` is the
    loss of any record. Either sees **one record at a time**, as a batch of one. ``batch_size`` of the loader is what a step is expected to read.
    ``epochs`` or ``steps``: all of them are charged here. Either ``epsilon`` and ``delta``, or ``noise_multiplier`` (over ``max_grad_norm``
    as in Opacus, unless ``noise_over="sensitivity"``). Take zero-out: its noise is that of add-remove. Under add-remove itself the number of
    records is secret, ``public_records`` stands for it, and torch rounds gradients by places that one record moves, which no guarantee covers.
    ``noise="correlated"``: DP-MF, whose batches are not drawn for each step but once and for all, ``batch_size`` records or some more in each,
    and whose noise is tuned for the momentum of a ``torch.optim.SGD``; ``epochs`` of replace-one or zero-out.
    ``estimator``: :class:`Storm` or :class:`Spider`, which follow the gradient by its changes; otherwise each step has a gradient of its own.
    ``chunk``: rows that are worked out at a time; memory goes with it.
    """
    if estimator is not None and not isinstance(estimator, Follows):
        raise DPUserError(f"estimator= is a Storm or a Spider, not {estimator!r}")
    if estimator is not None and noise != "independent":
        raise DPUserError("an estimator has a clip for each step, and correlated noise one for all: noise='independent'")
    task = _Task(model, optimizer, data_loader, criterion, loss)
    batch_size = count("the loader's batch_size", data_loader.batch_size, 1)
    records = count("records of the data set", len(data_loader.dataset), 1)
    if adjacency == "add-remove" and public_records is None:
        raise DPUserError("under add-remove the number of records is secret: give a public one, public_records=")
    public_records = maybe(count, "public_records", public_records, 1)
    if adjacency == "add-remove":
        warnings.warn(
            "under add-remove a record more moves the others to other places, where torch may round their gradients otherwise: the guarantee does "
            "not cover these last bits. adjacency='zero-out' has the same noise, and records keep their places",
            stacklevel=2,
        )
    if noise not in ("independent", "correlated"):
        raise DPUserError(f"noise= is 'independent' or 'correlated', not {noise!r}")
    if noise == "correlated":
        if epochs is None or steps is not None:
            raise DPUserError("correlated noise is over whole epochs: give epochs=, not steps=")
        schedule = None
        batches = {"epochs": epochs, "batch_size": min(batch_size, records), "momentum": _momentum(optimizer), "seed": int(torch.randint(2**53, ()))}
    else:
        schedule = Schedule.of(records=public_records or records, batch_size=batch_size, epochs=epochs, steps=steps)
        batches = {"steps": schedule.steps, "sampling_rate": schedule.sampling_rate}
    if chunk is None:
        chunk = chunk_rows(min(batch_size, public_records or records), public_records or records, task.held(estimator is not None))
    task.try_out(count("chunk", chunk, 1, 2**20))
    private = PrivateSteps(
        records=records,
        dim=task.dim,
        clip=max_grad_norm,
        **batches,
        adjacency=adjacency,
        epsilon=epsilon,
        delta=delta,
        noise_multiplier=noise_multiplier,
        noise_over=noise_over,
        public_records=public_records,
        ledger=ledger,
        threads=threads,
    )
    schedule = schedule or Schedule(1.0, private.steps, private.steps // epochs)
    run = _Run(task, private, schedule, chunk, Estimate(estimator, real("max_grad_norm", max_grad_norm)))
    return model, PrivateOptimizer(optimizer, run), PrivateLoader(run)


def _momentum(optimizer):
    """What noise is tuned for; of an optimiser with a state of another kind, as for one without."""
    found = {group.get("momentum", 0.0) for group in optimizer.param_groups}
    plain = not any(group.get("dampening") for group in optimizer.param_groups)
    return found.pop() if isinstance(optimizer, torch.optim.SGD) and len(found) == 1 and plain else 0.0


# What is refused, before anything is charged and before each draw.


def _refuse_layers(model):
    for name, layer in model.named_modules():
        what = f"{name or 'the model'} ({type(layer).__name__})"
        if isinstance(layer, nn.modules.batchnorm._BatchNorm) and (layer.training or layer.running_mean is None):
            raise DPUserError(
                f"{what} takes means over records, so one record changes the gradients of others: take nn.GroupNorm or nn.LayerNorm, or "
                "public running statistics and layer.eval()"
            )
        if isinstance(layer, nn.modules.instancenorm._InstanceNorm) and layer.training and layer.track_running_stats:
            raise DPUserError(f"{what} keeps running statistics of the records: track_running_stats=False")
        if isinstance(layer, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
            raise DPUserError(f"{what} splits samples over machines; give the model inside of it, model.module")


def _refuse_loader(loader):
    if not isinstance(loader, DataLoader):
        raise DPUserError(f"a torch.utils.data.DataLoader, not {type(loader).__name__}: its data set, batch_size and collate_fn are taken")
    if isinstance(loader.dataset, IterableDataset) or not hasattr(loader.dataset, "__getitem__") or not hasattr(loader.dataset, "__len__"):
        raise DPUserError(
            f"{type(loader.dataset).__name__} is no data set with numbered records: samples are drawn by number, so it needs __len__ and __getitem__"
        )
    if loader.batch_size is None or loader.batch_sampler is not None and type(loader.batch_sampler) is not torch.utils.data.BatchSampler:
        raise DPUserError("the loader has a batch sampler of its own: batches are Poisson samples here, of the expected size batch_size=")
    if type(loader.sampler) not in (RandomSampler, SequentialSampler) or getattr(loader.sampler, "replacement", False):
        raise DPUserError(f"the loader has a sampler of its own, {type(loader.sampler).__name__}: batches are Poisson samples here")
    drawn = getattr(loader.sampler, "num_samples", len(loader.dataset))
    if drawn != len(loader.dataset):
        raise DPUserError(
            f"the loader's RandomSampler(num_samples={drawn}) would be ignored: samples are drawn of all {len(loader.dataset)} records. Leave "
            "num_samples= out, and say how many steps there are: steps="
        )
    if loader.num_workers:
        raise DPUserError(
            f"num_workers={loader.num_workers}: workers are copies of this process, with the key of its noise; load in this one, num_workers=0"
        )


def _trained(model, optimizer):
    """Names and parameters that are trained: of the optimiser, not frozen, each once."""
    own = {id(parameter): name for name, parameter in model.named_parameters()}
    found = {}
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if id(parameter) not in own:
                raise DPUserError(f"the optimiser has a parameter of shape {tuple(parameter.shape)} that the model has not")
            if parameter.requires_grad:
                found[own[id(parameter)]] = parameter
    if not found:
        raise DPUserError("nothing is trained: each parameter of the optimiser is frozen")
    for name, parameter in found.items():
        if isinstance(parameter, nn.parameter.UninitializedParameter):
            raise DPUserError(f"{name} has no shape yet: run the model once on a public example")
        if parameter.dtype not in (torch.float32, torch.float64):
            raise DPUserError(f"{name} is of {parameter.dtype}: train in float32, model.float(); its gradients would overflow, and count as zero")
        if parameter.is_sparse or parameter.device.type == "meta":
            raise DPUserError(f"{name} is sparse, or on no device")
    if len({parameter.device for parameter in found.values()}) > 1:
        raise DPUserError("the parameters are on several devices: put the model on one")
    # In the model's order, whatever the groups are.
    return {name: found[name] for name, _ in model.named_parameters() if name in found}


# Records: nested tuples, lists and dicts of tensors, with one row for each.


def _leaves(batch, like=None):
    """The tensors of a batch, in turn: in the order of another one, which must be made up in the same way."""
    like = batch if like is None else like
    if isinstance(batch, torch.Tensor) and isinstance(like, torch.Tensor):
        return [batch]
    if isinstance(batch, Mapping) and isinstance(like, Mapping) and batch.keys() == like.keys():
        return [leaf for key in like for leaf in _leaves(batch[key], like[key])]
    if isinstance(batch, (tuple, list)) and isinstance(like, (tuple, list)) and len(batch) == len(like):
        return [leaf for part, other in zip(batch, like) for leaf in _leaves(part, other)]
    raise DPUserError(f"a record holds {type(batch).__name__}, and is made of tensors, in tuples, lists and dicts: see collate_fn of the loader")


def _rebuilt(batch, leaves):
    """The same batch of other tensors, taken from an iterator."""
    if isinstance(batch, torch.Tensor):
        return next(leaves)
    if isinstance(batch, Mapping):
        return {key: _rebuilt(batch[key], leaves) for key in batch}
    parts = [_rebuilt(part, leaves) for part in batch]
    return tuple(parts) if isinstance(batch, tuple) else parts


class _Records:
    """Records by position, all of the shape of the first. Nothing that one of them holds is an error, and no two are mixed."""

    def __init__(self, loader):
        self._dataset, self._collate = loader.dataset, loader.collate_fn
        if not len(self._dataset):
            raise DPUserError("the data set has no records")
        # What the first record draws from torch's generator must not move it: the seeds of the steps come from there.
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                self.like = self._one(0)
            except Exception:
                raise DPUserError("the first record of the data set can't be had") from None
        leaves = _leaves(self.like)
        if not leaves or any(leaf.ndim == 0 or len(leaf) != 1 for leaf in leaves):
            raise DPUserError("collate_fn([record]) gives tensors with one row, as default_collate does")
        # Rows of tensors, without a word of Python about each.
        plain = type(self._dataset) is TensorDataset and self._collate is default_collate
        self._tensors = self._dataset.tensors if plain else None

    def _one(self, position):
        """Collated alone: what collates several may pad, or mix."""
        return self._collate([self._dataset[position]])

    def zeros(self, rows):
        return [torch.zeros((rows, *leaf.shape[1:]), dtype=leaf.dtype) for leaf in _leaves(self.like)]

    def rows(self, positions, size, seed):
        """``size`` rows of each tensor, the records in turn and zeros below, and which of them are records."""
        found, whole = self.zeros(size), np.zeros(size, dtype=bool)
        if self._tensors is not None:
            at = torch.from_numpy(positions)
            for full, tensor in zip(found, self._tensors):
                full[: len(positions)] = tensor[at].detach()
            whole[: len(positions)] = True
            return found, whole
        for row, position in enumerate(positions):
            # What a transform draws depends on the step, and not on which records came before.
            torch.manual_seed(seed)
            try:
                # Neither an error nor a warning tells of the record.
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    leaves = _leaves(self._one(int(position)), self.like)
                    whole[row] = all(
                        leaf.shape == (1, *full.shape[1:]) and leaf.dtype == full.dtype for leaf, full in zip(leaves, found)
                    )
                    if whole[row]:
                        for full, leaf in zip(found, leaves):
                            full[row] = leaf[0].detach()
            except ENDS:
                raise
            except BaseException:
                whole[row] = False
                for full in found:
                    full[row] = 0
        return found, whole


class _Task:
    """The gradient of one record's loss, for many records at once."""

    def __init__(self, model, optimizer, loader, criterion, loss):
        if not isinstance(model, nn.Module):
            raise DPUserError(f"the model is a torch.nn.Module, not {type(model).__name__}")
        if not isinstance(optimizer, torch.optim.Optimizer) or isinstance(optimizer, (torch.optim.LBFGS, PrivateOptimizer)):
            raise DPUserError(
                f"an optimiser of torch that takes one gradient for a step, not {type(optimizer).__name__}"
                + (": it is private already" if isinstance(optimizer, PrivateOptimizer) else "")
            )
        if (criterion is None) == (loss is None):
            raise DPUserError("give criterion(output, target), or loss=, a function of the model and a record")
        if criterion is not None and getattr(criterion, "weight", None) is not None and getattr(criterion, "reduction", "") == "mean":
            raise DPUserError("a weighted mean over one record cancels its weight: reduction='sum'")
        _refuse_loader(loader)
        _refuse_layers(model)
        self.model, self.optimizer = model, optimizer
        self.parameters = _trained(model, optimizer)
        self.device = next(iter(self.parameters.values())).device
        self.dim = sum(parameter.numel() for parameter in self.parameters.values())
        self._layers = {}
        double = any(parameter.dtype == torch.float64 for parameter in self.parameters.values())
        self.dtype = np.float64 if double else np.float32
        self.records = _Records(loader)
        self._criterion, self._loss = criterion, loss
        self._planned = self._seen(self.parameters)
        self._tried = None
        self._layers = self._factored()

    @staticmethod
    def _seen(parameters):
        return [(name, id(one), one.dtype, one.device, tuple(one.shape)) for name, one in parameters.items()]

    def _modes(self):
        parts = (self.model, self._criterion, self._loss)
        layers = (layer for part in parts if isinstance(part, nn.Module) for layer in part.modules())
        return [(id(layer), layer.training) for layer in layers]

    def check(self):
        """Whether it is still what was planned: depends on no record."""
        _refuse_layers(self.model)
        if self._seen(_trained(self.model, self.optimizer)) != self._planned:
            raise DPUserError(
                "other parameters are trained than when the steps were planned, or they have another type or device: make it private again"
            )
        if self._tried is not None and self._tried[1] != self._modes():
            # What a layer does in train() and in eval() are two things.
            self.try_out(self._tried[0])

    @property
    def width(self):
        """Numbers that are held for each record."""
        return sum(layer.width for layer in self._layers.values()) + self.dim - sum(layer.entries for layer in self._layers.values())

    def held(self, twice):
        """The same with what is made of them on the way; ``twice``: by an estimator, of two points."""
        if twice:
            return self.width + 4 * self.dim
        return self.width + (sparse_numbers(self._matrices()) if self.sparse else 0)

    @property
    def factored(self):
        """Whether any matrix has a left factor that is not one."""
        return any(left > 1 for left, _ in self._shapes())

    @property
    def sparse(self):
        """Whether some layer has a gradient that is mostly zero."""
        return any(layer.sparse for layer in self._layers.values())

    def _of_one(self, point, taps, fixed, leaves):
        """The loss of a batch of one, which has no other record to look at, and what goes into layers whose outputs are ``taps`` more."""
        record = _rebuilt(self.records.like, iter(leaf[None] for leaf in leaves))
        inputs = {}

        def model(*given, **named):
            with tapped(self.model, taps, inputs):
                return functional_call(self.model, (point, fixed), given, named)

        with Guarded():
            found = self._loss_of(model, record)
        if inputs.keys() != taps.keys():
            raise NotOnce
        return found, inputs

    def _loss_of(self, model, record):
        if self._loss is not None:
            found = self._loss(model, record)
        elif isinstance(record, (tuple, list)) and len(record) > 1:
            found = self._criterion(model(*record[:-1]), record[-1])
        else:
            raise DPUserError("a record has inputs and a target, (x, y), for a criterion; give loss= for others")
        if not isinstance(found, torch.Tensor) or found.numel() != 1:
            raise DPUserError("a loss is one number of a record")
        return found.reshape(())

    def point(self):
        """A copy of what is trained."""
        return {name: parameter.detach().clone() for name, parameter in self.parameters.items()}

    def _each(self, function, leaves, seed, at=None):
        """What a function like :meth:`_of_one` makes of each record."""
        # Copies: a value that no record is in can be written in place, and the number of evaluations is secret.
        _, others = self._names()
        point = {name: self.parameters[name].detach().clone() for name in others}
        every = (*self.model.named_parameters(remove_duplicate=True), *self.model.named_buffers())
        fixed = {name: tensor.detach().clone() for name, tensor in every if name not in point}
        for name, tensor in (at or {}).items():
            (point if name in point else fixed)[name] = tensor.clone()
        taps = {name: layer.tap() for name, layer in self._layers.items()}
        # What a layer draws is drawn once and serves all records: a mask that depended on a record's place would depend on who else is there.
        torch.manual_seed(seed)
        of = vmap(function, in_dims=(None, None, None, 0), randomness="same")
        with _nothing_kept(self.model, self._criterion, self._loss):
            return of(point, taps, fixed, [leaf.to(self.device) for leaf in leaves])

    def gradients(self, leaves, seed, at=None):
        """Pairs of factors: row by row the matrices ``left right^T`` are the gradients of the records, in the order of :meth:`blocks`. All are
        of one shape, whose size never depends on what was drawn. ``at``: another :meth:`point` than the parameters."""
        (rest, outputs), inputs = self._each(grad(self._of_one, argnums=(0, 1), has_aux=True), leaves, seed, at)
        rows = len(leaves[0])
        found = [pair for name, layer in self._layers.items() for pair in layer.factors(outputs[name], inputs[name])]
        found += [alone(rows) for rows in rest.values()]
        return [tuple(side.detach().cpu().numpy().astype(self.dtype, copy=False) for side in pair) for pair in found]

    def _names(self):
        """Parameters in the order of their factors, and in turn those of one layer."""
        factored = [layer.names for layer in self._layers.values()]
        return factored, [name for name in self.parameters if not any(name in names for names in factored)]

    def _matrices(self):
        """Columns of the factors, and rows and columns of what they stand for."""
        _, rest = self._names()
        alone = [(1, self.parameters[name].numel()) for name in rest]
        return [each for layer in self._layers.values() for each in layer.matrices] + [(shape, shape) for shape in alone]

    def _shapes(self):
        return [shape for _, shape in self._matrices()]

    def blocks(self, flat):
        """What was released, as one block for each parameter."""
        factored, rest = self._names()
        parts = iter(split(flat, self._shapes()))
        found = {}
        for layer, names in zip(self._layers.values(), factored):
            found.update(zip(names, layer.split([next(parts) for _ in layer.sides])))
        found.update(zip(rest, parts))
        return [np.ascontiguousarray(found[name]).reshape(parameter.shape) for name, parameter in self.parameters.items()]

    def parts(self, flat):
        """Numbers in the order of parameters, as one block for each."""
        return split(flat, [tuple(parameter.shape) for parameter in self.parameters.values()])

    def contributions(self, positions, size, seed, at=None):
        """Gradients of the records at these positions, as :meth:`gradients`. One whose record can't be had, or has no gradient, is zero."""
        leaves, whole = self.records.rows(positions, size, seed)
        found = self.contributed(leaves, whole, seed, at)
        return [tuple(side[: len(positions)] for side in pair) for pair in found]

    def contributed(self, leaves, whole, seed, at=None):
        """The same of rows that were read."""
        size = len(whole)
        try:
            found = self.gradients(leaves, seed, at)
        except (*ENDS, NotOnce, MemoryError, torch.cuda.OutOfMemoryError):
            raise
        except BaseException:
            try:
                # No record is in these.
                self.gradients(self.records.zeros(size), seed, at)
            except (NotOnce, MemoryError, torch.cuda.OutOfMemoryError):
                raise
            except Exception as error:
                raise DPUserError(f"torch.func can't take the gradient of one record any more (tried on {size} records of zeros): {error}") from None
            # Some record has none, by an error that no made-up record had. It is its own affair.
            failing = self._failing(leaves, np.flatnonzero(whole), seed, at)
            whole = whole & ~np.isin(np.arange(size), failing)
            found = self.gradients(self._only(leaves, np.flatnonzero(whole)), seed, at)
        for side in (side for pair in found for side in pair):
            side[~whole] = 0.0
        return found

    @staticmethod
    def _only(leaves, rows):
        """These rows, in the places where they are, and zeros."""
        found = [torch.zeros_like(leaf) for leaf in leaves]
        for one, leaf in zip(found, leaves):
            one[rows] = leaf[rows]
        return found

    def _failing(self, leaves, rows, seed, at):
        """Which of these rows have no gradient, by halves."""
        try:
            self.gradients(self._only(leaves, rows), seed, at)
            return []
        except ENDS:
            raise
        except BaseException:
            half = len(rows) // 2
            if not half:
                return [*rows]
            return self._failing(leaves, rows[:half], seed, at) + self._failing(leaves, rows[half:], seed, at)

    def unfactored(self, twice):
        """Gives up what was found of the layers: from now on each gradient is taken whole, of as many records at a time as is returned."""
        self._layers = {}
        rows, modes = self._tried
        rows = chunk_rows(rows, rows, self.held(twice))
        self._tried = rows, modes
        return rows

    def _factored(self):
        """The layers whose gradients follow from inputs and outputs, found on made-up records; none where anything is odd. A wrong answer
        costs accuracy, and no privacy: the clip is that of what they give."""

        def right(layers):
            self._layers = layers
            try:
                return all(close(self.matrices(self.gradients(leaves, 0, at)), whole) for leaves, at, whole in probes)
            except Exception:
                return False
            finally:
                self._layers = {}

        def shows(layer):
            """Whether its gradients are numbers, and not zero: others are like anything."""
            return all(any(np.isfinite(whole[:, at[name]]).all() and whole[:, at[name]].any() for _, _, whole in probes) for name in layer.names[:1])

        ends = np.cumsum([parameter.numel() for parameter in self.parameters.values()])
        at = {name: slice(end - parameter.numel(), end) for end, (name, parameter) in zip(ends, self.parameters.items())}
        probes, shapes = [], {}
        with _seeds(self.device), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # Weights that start at zero hide what is behind them.
            moved = {name: point + 0.05 * torch.randn_like(point) for name, point in self.point().items()}
            for point, word in ((None, 0), (moved, 0), (moved, 1)):
                # Of both signs, and of one.
                leaves = [
                    torch.cat([torch.randn_like(leaf[:2]), torch.rand_like(leaf[2:])]) if leaf.is_floating_point() else torch.full_like(leaf, word)
                    for leaf in self.records.zeros(4)
                ]
                try:
                    with watched(self.model) as seen:
                        probes.append((leaves, point, self.matrices(self.gradients(leaves, 0, point))))
                    shapes = shapes or dict(seen)
                except Exception:
                    # What is wrong with zeros is said where they are tried out; another word may not be there.
                    continue
            found = candidates(self.model, self.parameters, shapes)
            found = {name: layer for name, layer in found.items() if shows(layer)}
            # A layer that is used twice, or whose weights are used elsewhere, has another gradient.
            found = found if right(found) else {name: layer for name, layer in found.items() if right({name: layer})}
        plain = {name: layer for name, layer in found.items() if not layer.sparse}
        if len(plain) < len(found):
            # Sparse rows hold more for each number that is not zero.
            self._layers = found
            whole = self.held(False)
            self._layers = plain
            return found if whole <= self.held(False) else plain
        return found

    def rows(self, factors):
        """The gradients themselves, one matrix after another."""
        return np.concatenate([dense(pair, shape).reshape(len(pair[0]), -1) for pair, shape in zip(factors, self._shapes())], axis=1)

    def matrices(self, factors):
        """The gradients themselves, one parameter after another."""
        return np.array([np.concatenate([block.ravel() for block in self.blocks(row)]) for row in self.rows(factors)])

    def try_out(self, rows):
        """Whether it runs at all, and keeps nothing of a record: on made-up ones of the shape of the first, as no record is to be an error."""
        zeros = self.records.zeros(rows)
        # Another class or word may not be there.
        others = [torch.rand(leaf.shape).to(leaf.dtype) if leaf.is_floating_point() else torch.ones_like(leaf) for leaf in zeros]
        wide = [10.0 * torch.randn(leaf.shape).to(leaf.dtype) if leaf.is_floating_point() else leaf for leaf in zeros]
        half = [other if other.is_floating_point() else leaf for leaf, other in zip(zeros, others)]

        def changed(leaves, words):
            """The first record is another one, in its words and classes too or in all but these."""
            found = [leaf.clone() for leaf in leaves]
            for leaf in found:
                if leaf.is_floating_point():
                    leaf[0] = torch.rand(leaf.shape[1:]).to(leaf.dtype)
                elif words:
                    leaf[0] = (leaf[0] == 0).to(leaf.dtype)
            return found

        with _seeds(self.device):
            try:
                before = [self.gradients(zeros, 0)]
            except (DPUserError, NotOnce):
                raise
            except Exception as error:
                raise DPUserError(
                    f"torch.func can't take the gradient of one record (tried on {rows} records of zeros){_recurrent(self.model)}: {error}"
                ) from error
            # Gradients of zeros may be none, or NaN, and show nothing.
            probes = [zeros]
            for other in (half, others, wide):
                try:
                    before.append(self.gradients(other, 0))
                    probes.append(other)
                except Exception:
                    continue
            if not any(self._finite(probe, gradients) for probe, gradients in zip(probes, before)):
                raise DPUserError(
                    "the loss of every made-up record (zeros, random numbers), or its gradient, is NaN or infinite: a record without a finite "
                    "gradient counts as zero, and little would be learnt. See which numbers the loss is defined on"
                )
            self._refuse_errors(zeros)
            for probe, gradients in zip(probes, before):
                if not equal(gradients, self.gradients(probe, 0)):
                    raise DPUserError("a layer or the loss keeps something of the records it saw: the same made-up records had other gradients later")
            for probe, gradients in zip(probes, before):
                for words in (True, False):
                    try:
                        other = self.gradients(changed(probe, words), 0)
                    except Exception:
                        continue
                    if not equal(other, gradients, 1):
                        raise DPUserError("a layer or the loss mixes records: the gradients of made-up records changed with another one")
                    break
        self._tried = (rows, self._modes())

    def _finite(self, leaves, gradients):
        """Whether any of these records has a finite loss and a finite gradient."""
        losses, _ = self._each(self._of_one, leaves, 0)
        rows = [torch.isfinite(losses).detach().cpu().numpy(), *(np.isfinite(side).all(axis=1) for pair in gradients for side in pair)]
        return np.logical_and.reduce(rows).any()

    def _refuse_errors(self, zeros):
        """An error on the values of one record would end the call for all of its chunk, and the work after it would show that it was drawn."""
        for number, word in ((torch.nan, -1), (torch.inf, 2**31 - 1), (-1e30, -1)):
            odd = [torch.full_like(leaf, number) if leaf.is_floating_point() else _full(leaf, word) for leaf in zeros]
            try:
                self.gradients(odd, 0)
            except NotOnce:
                continue
            except Exception as error:
                raise DPUserError(
                    f"the loss raises an error on some values of a record (tried on records that are all {number} or {word}), so that the time of a "
                    f"step would show whether such a record was drawn; take a function that returns NaN there, as torch.linalg.inv_ex: {error}"
                ) from error


def _full(leaf, word):
    """The same of whole numbers, of as much as their type holds."""
    if leaf.dtype == torch.bool:
        return torch.ones_like(leaf)
    ends = torch.iinfo(leaf.dtype)
    return torch.full_like(leaf, min(max(word, ends.min), ends.max))


def _recurrent(model):
    """A hint at layers that torch.func can't take."""
    found = [f"{name or 'the model'} ({type(layer).__name__})" for name, layer in model.named_modules() if isinstance(layer, (nn.RNNBase, nn.RNNCellBase))]
    if not found:
        return ""
    return f", and its layers do not all take records alone: {', '.join(found)}; write the steps of such a layer out with nn.Linear, or take nn.Conv1d or nn.MultiheadAttention"


@contextlib.contextmanager
def _nothing_kept(model, *others):
    """What layers set in themselves meanwhile is undone: it tells of records, and would meet those that come later."""
    layers = [layer for part in (model, *others) if isinstance(part, nn.Module) for layer in part.modules()]
    before = [(dict(vars(layer)), {name: dict(of) for name, of in vars(layer).items() if isinstance(of, dict)}) for layer in layers]
    # Those of the model were given as copies.
    tensors = [buffer for part in others if isinstance(part, nn.Module) for buffer in part.buffers()]
    copies = [tensor.detach().clone() for tensor in tensors]
    try:
        yield
    finally:
        for layer, (values, inner) in zip(layers, before):
            vars(layer).clear()
            vars(layer).update(values)
            for name, of in inner.items():
                values[name].clear()
                values[name].update(of)
        with torch.no_grad():
            for tensor, copy in zip(tensors, copies):
                tensor.copy_(copy)


def _seeds(device):
    """What is drawn inside leaves torch's generators as they were."""
    return torch.random.fork_rng(devices=[device] if device.type == "cuda" else [])


class _Run:
    """Steps that are paid for, and the one that is under way."""

    def __init__(self, task, private, schedule, chunk, estimate):
        self.task, self.private, self.schedule, self.chunk, self.estimate = task, private, schedule, chunk, estimate
        self.sample = None
        # One step at a time: the records of two would meet in one sum.
        self._busy = threading.Lock()

    @contextlib.contextmanager
    def _alone(self):
        if not self._busy.acquire(blocking=False):
            raise DPUserError("another thread draws or steps: one step at a time")
        try:
            yield
        finally:
            self._busy.release()

    def __reduce__(self):
        raise DPUserError("steps hold the key of their noise: they can't be copied. Keep model.state_dict() and optimizer.state_dict()")

    @property
    def left(self):
        return self.private.left

    def draw(self):
        with self._alone():
            # Another step's records are none of this one's, wherever it is interrupted.
            self.sample = None
            self._check()
            if self.private.pending:
                # It was interrupted, or left out. It is paid for, and what it releases is forgotten.
                self.private.release()
            # At the point that there is now.
            clip = self.estimate.begin(self.task.point)
            self.sample = Sample(self, self.private.draw(clip), int(torch.randint(2**62, ())))
            return self.sample

    def step(self):
        with self._alone():
            if self.sample is None:
                raise DPUserError("no sample was drawn: step once for each `sample in loader`")
            # The modes of layers may be others than when it was drawn.
            self._check()
            sample, self.sample = self.sample, None
            # Neither a warning nor an error of numbers tells of a record.
            with _seeds(self.task.device), warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                try:
                    self._add(sample)
                except NotOnce:
                    # Which layers are used follows from the seed, and from no record: it is seen before anything is added.
                    self._take_whole()
                    self._add(sample)
            # In the order of parameters, whatever the layers are.
            released = np.concatenate([block.ravel() for block in self.task.blocks(self.private.release())])
            return self.task.parts(self.estimate.end(released))

    def _check(self):
        try:
            self.task.check()
        except NotOnce:
            self._take_whole()
            self.task.check()

    def _take_whole(self):
        self.chunk = self.task.unfactored(self.estimate.follows)

    def _add(self, sample):
        at, before, kept = self.estimate.points
        if not len(sample._positions) and self.task._layers:
            # How layers are taken from now on must not tell that nobody was drawn.
            try:
                self.task.gradients(self.task.records.zeros(self.chunk), sample._seed, at)
            except (*ENDS, NotOnce):
                raise
            except BaseException:
                pass
        for number, positions in enumerate(chunks(sample._positions, self.chunk)):
            # Read once: what a transform draws is the same at both points.
            leaves, whole = self.task.records.rows(positions, self.chunk, sample._seed)

            def found(point, leaves=leaves, whole=whole, some=len(positions)):
                return [tuple(side[:some] for side in pair) for pair in self.task.contributed(leaves, whole, sample._seed, point)]

            try:
                now = found(at)
                then = None if before is None else found(before)
            except NotOnce:
                if number:
                    raise DPUserError("a layer is used in some chunks of a step and not in others: draw what decides it from torch's generator") from None
                raise
            if then is not None:
                self.private.add(self.task.rows(now) - self.task.dtype(kept) * self.task.rows(then))
            elif self.task.sparse:
                self.private.add_sparse(*sparse(now, self.task._shapes()))
            elif self.task.factored:
                self.private.add_products(now)
            else:
                self.private.add(self.task.rows(now))

    def settle(self):
        with self._alone():
            self.sample = None
            return self.private.settle()

    def unsettled(self):
        try:
            self.settle()
        except BudgetError as error:
            return str(error)
        return None


class Sample:
    """Records of one step. They are secret, and so is how many they are."""

    def __init__(self, run, positions, seed):
        self._run, self._positions, self._seed = run, positions, seed

    def reveal(self):
        """The records, as the loader would give them. What becomes of them is not covered by the guarantee."""
        with _seeds(self._run.task.device):
            found, _ = self._run.task.records.rows(self._positions, len(self._positions), self._seed)
        return _rebuilt(self._run.task.records.like, iter(leaf.to(self._run.task.device) for leaf in found))

    def __reduce__(self):
        raise DPUserError("a sample is secret, and is not copied")


class PrivateLoader:
    """An epoch at a time, one :class:`Sample` for each step."""

    def __init__(self, run):
        self._run = run

    def __len__(self):
        return self._run.schedule.per_epoch

    def __iter__(self):
        run = self._run
        if not run.left:
            raise BudgetError(f"all {run.schedule.steps} steps that were paid for are done")
        for _ in range(min(len(self), run.left)):
            if run.left:
                yield run.draw()


class PrivateOptimizer(torch.optim.Optimizer):
    """An optimiser of torch whose gradients are private means. All that it does with them is post-processing.

    Gradients that something else left in the parameters are dropped before each step.
    """

    def __init__(self, optimizer, run):
        # Its groups and its state are those of the optimiser inside.
        self.original = optimizer
        self._run = run

    @property
    def param_groups(self):
        return self.original.param_groups

    @property
    def state(self):
        return self.original.state

    @property
    def defaults(self):
        return self.original.defaults

    def state_dict(self):
        return self.original.state_dict()

    def load_state_dict(self, state_dict):
        self.original.load_state_dict(state_dict)

    def zero_grad(self, set_to_none=True):
        self.original.zero_grad(set_to_none)

    def add_param_group(self, param_group):
        raise DPUserError("the steps are planned for the parameters that there are: make it private with all of them")

    def step(self, closure=None):
        """One private step on the sample that was drawn last."""
        if closure is not None:
            raise DPUserError("a closure would look at the records again: step() takes none")
        blocks = self._run.step()
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None
        for parameter, block in zip(self._run.task.parameters.values(), blocks):
            parameter.grad = torch.from_numpy(block).to(parameter.device, parameter.dtype)
        self.original.step()
        if not self._run.left:
            # The step is made, whatever the ledger says.
            warn_of_ledger(self._run.unsettled(), 3)

    def guarantee(self, delta=None):
        """What was reserved, as a :class:`dpopt.Statement`: it holds wherever the steps ended."""
        return self._run.private.guarantee(delta)

    @property
    def noise_multiplier(self):
        """Over ``max_grad_norm``, unless ``noise_over`` said otherwise."""
        return self._run.private.noise_multiplier

    @property
    def steps_left(self):
        """Steps that are paid for and not done."""
        return self._run.left

    def settle(self):
        """Ends the steps early; what was not used goes back to the ledger. Returns the event of what was released."""
        return self._run.settle()

    def __repr__(self):
        return f"PrivateOptimizer({self.original!r}, {self._run.left} of {self._run.schedule.steps} steps left)"

    def __reduce__(self):
        return self._run.__reduce__()
