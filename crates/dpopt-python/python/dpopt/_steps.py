"""Private steps on gradients of one's own: of NumPy functions, of torch.func, of JAX."""

import logging
import sys

import numpy as np

from . import _dpopt
from ._dpopt import Event
from ._values import count, maybe, numbers, real, warn_of_budget, warn_of_ledger
from .accounting import Statement, _over_clip, epsilon as _epsilon, noise_multiplier as _calibrated
from .errors import AccountingError, BudgetError, DPUserError

__all__ = ["PrivateSteps"]

#: Public facts, at INFO.
_log = logging.getLogger("dpopt")


def _rows(values, what):
    values = numbers(values, what)
    if values.ndim != 2:
        raise DPUserError(f"{what} have one row for each record: two dimensions, not {values.ndim}")
    return values


def _least(multiplier, steps, sampling_rate, delta, adjacency, correlated):
    """The epsilon of steps with this noise, in three digits; the largest number, where no accountant states one."""
    event = Event.gaussian(multiplier)
    if not correlated:
        event = (event if sampling_rate == 1.0 else event.poisson_sampled(sampling_rate)).repeated(steps)
    try:
        return max(float(f"{_epsilon(event, delta=delta, adjacency=adjacency):.3g}"), sys.float_info.min)
    except AccountingError:
        return sys.float_info.max


class PrivateSteps:
    """Equal private steps: each draws records, adds up their clipped gradients exactly, and releases the mean with exact noise.

    The whole of it is charged when the object is made. A step::

        with PrivateSteps(records=n, dim=d, clip=1.0, epsilon=1.0, delta=1e-6, steps=1000, sampling_rate=0.01,
                          adjacency="zero-out") as private:
            for positions in private:
                private.add(gradients(w, positions))     # one row for each of them
                w -= rate * private.release()

    ``records``: how many there are. Under add-remove it is secret, and ``public_records`` is what means divide by. ``clip``: the radius C that
    each gradient is clipped to. Either ``epsilon`` and ``delta``, or ``noise_multiplier`` (over ``clip`` as in Opacus, unless
    ``noise_over="sensitivity"``). ``sampling_rate=1``: every step reads all records.

    ``epochs`` and ``batch_size`` in place of ``steps``: no samples, but slices of at least as many records, in turn, each once in every epoch,
    and noise that is correlated over all steps (DP-MF) for steps with this heavy-ball ``momentum``, and sizes that fall on a line over the last
    share ``cool_down`` of them. ``noise_multiplier`` is then of the whole. Who is in which slice is drawn once, from ``seed`` if it is given, and
    public. Replace-one or zero-out.

    Privacy. Adjacency and cost are stated; the clip is enforced on whatever numbers come in, a row that is not finite counts as zero, and a step
    takes no more rows than were drawn. What is not enforced: row i is a function of the i-th drawn record and of public numbers alone.
    Positions that were sampled are secret: who is told them may use them for the gradients and nothing else. The mean is post-processed at will.
    """

    def __init__(
        self,
        *,
        records,
        dim,
        clip,
        steps=None,
        adjacency,
        epsilon=None,
        delta=None,
        noise_multiplier=None,
        noise_over="clip",
        sampling_rate=1.0,
        epochs=None,
        batch_size=None,
        momentum=0.0,
        cool_down=0.0,
        seed=None,
        public_records=None,
        ledger=None,
        threads=None,
    ):
        factor = _over_clip(adjacency, noise_over)
        records, dim = count("records", records, 1), count("dim", dim)
        public_records = maybe(count, "public_records", public_records, 1)
        sampling_rate = real("sampling_rate", sampling_rate)
        correlated = None
        if (epochs is None) != (batch_size is None) or (epochs is None) == (steps is None):
            raise DPUserError("give steps=, or epochs= and batch_size= for correlated noise")
        if epochs is None:
            steps = count("steps", steps)
            if momentum or cool_down or seed is not None:
                raise DPUserError("momentum, cool_down and seed are of correlated noise, with epochs= and batch_size=")
        else:
            if sampling_rate != 1.0:
                raise DPUserError("correlated noise takes no samples: leave sampling_rate= out")
            epochs, batch_size = count("epochs", epochs, 1), count("batch_size", batch_size, 1)
            correlated = (epochs, batch_size, real("momentum", momentum), real("cool_down", cool_down))
        if (epsilon is None) == (noise_multiplier is None):
            raise DPUserError("give epsilon= and delta=, or noise_multiplier=")
        if epsilon is not None:
            if delta is None:
                raise DPUserError("epsilon= needs delta=")
            noise_multiplier = factor * _calibrated(
                epsilon=real("epsilon", epsilon),
                delta=real("delta", delta),
                adjacency=adjacency,
                # Of all epochs together.
                steps=1 if correlated else steps,
                sampling_rate=sampling_rate,
                noise_over="sensitivity",
            )
        self.noise_multiplier = real("noise_multiplier", noise_multiplier)
        self._delta = delta
        if adjacency == "add-remove" and public_records is None:
            raise DPUserError("under add-remove the number of records is secret: give a public one, public_records=")
        public = records if public_records is None else public_records
        if epsilon is None:
            # An epsilon at a larger delta is no larger.
            at = delta if delta is not None else 1.0 / (public + 1)
            found = _least(self.noise_multiplier / factor, steps or 1, sampling_rate, at, adjacency, correlated)
            warn_of_budget(found, None, public, 2, f"noise_multiplier={self.noise_multiplier:g} at delta {at:.3g}: ")
        warn_of_budget(epsilon, delta, public, 2)
        # Drawn without a look at records, and told to anybody.
        self._order = np.random.default_rng(maybe(count, "seed", seed)).permutation(records) if correlated else None
        self._native = _dpopt.Steps(
            records=records,
            public_records=public_records,
            dim=dim,
            clip=real("clip", clip),
            noise_multiplier=self.noise_multiplier / factor,
            sampling_rate=sampling_rate,
            steps=steps or 0,
            correlated=correlated,
            adjacency=adjacency,
            ledger=ledger,
            threads=maybe(count, "threads", threads, 1, 4096),
        )
        self.steps = self._left = self._native.steps
        how = f"at rate {sampling_rate:g} with noise multiplier" if correlated is None else "in slices with correlated noise of multiplier"
        _log.info("reserved %s steps %s %g under %s adjacency", self.steps, how, self.noise_multiplier, adjacency)

    def __iter__(self):
        while self._left:
            yield self.draw()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.settle()
        except BudgetError as error:
            # What was released stands.
            warn_of_ledger(str(error), 2)

    def draw(self, clip=None):
        """Positions of the records of the next step, rising. ``clip``: the radius of this step, in place of that of all, for contributions of
        another size, such as differences of gradients; noise goes with it, and the price is the same. It has to be public: a function of what
        was released, and of no record."""
        positions = self._native.draw(None if clip is None else real("clip", clip))
        self._left -= 1
        if isinstance(positions, np.ndarray):
            return positions
        start, end = positions
        return np.arange(start, end) if self._order is None else np.sort(self._order[start:end])

    @property
    def left(self):
        """Steps that are paid for and were not drawn."""
        return self._left

    @property
    def pending(self):
        """Whether a step was drawn and is not released."""
        return self._native.pending()

    def add(self, gradients):
        """Adds gradients, rows in the order of the positions; in as many calls as memory asks for."""
        self._native.add(_rows(gradients, "gradients"))

    def add_sparse(self, starts, columns, values):
        """Adds gradients that are mostly zero, as compressed sparse rows (``indptr``, ``indices`` and ``data`` of SciPy's), in the order of the
        positions. A row whose columns do not rise, or that has one which is not there, counts as zero."""
        starts, columns = (np.ascontiguousarray(part, dtype=np.int64) for part in (starts, columns))
        values = numbers(values, "gradients")
        if not starts.ndim == columns.ndim == values.ndim == 1:
            raise DPUserError("sparse rows are three arrays of one dimension: starts, columns and values")
        self._native.add_sparse(starts, columns, np.ascontiguousarray(values))

    def add_products(self, factors):
        """Adds gradients that consist of matrices ``left[i] right[i]^T``, a pair ``(left, right)`` of arrays for each matrix, with rows in the
        order of the positions. A linear layer has ``left`` the gradient of its outputs and ``right`` its inputs, and a row of any other kind
        is ``right`` with a ``left`` of ones.

        The sum has the entries of one matrix after another, row by row. The whole of a record is clipped as one, and its matrices are never
        formed. Factors are rounded: the clip is shorter by at most ``dim**0.25 / 2**14.5`` of itself, and a gradient moves by at most as much.
        """
        self._native.add_products([(_rows(left, "factors"), _rows(right, "factors")) for left, right in factors])

    def release(self):
        """The mean gradient with its noise, of double precision. The step is paid for before it."""
        return self._native.release()

    def settle(self):
        """Ends them; what was not used of the reservation goes back to the ledger. Returns the event of what was released."""
        self._left = 0
        event = self._native.settle()
        _log.info("settled: %r", event)
        return event

    def guarantee(self, delta=None):
        """What was reserved, as a :class:`dpopt.Statement`: it holds wherever the steps ended."""
        delta = self._delta if delta is None else delta
        if delta is None:
            raise DPUserError("a guarantee needs delta=")
        epsilon, accountant, event = self._native.guarantee(delta)
        return Statement(epsilon, delta, self._native.adjacency, accountant, event)
