"""Estimators that follow a gradient by its changes, from point to point: STORM and SPIDER."""

import numpy as np

from ._values import count, real
from .errors import DPUserError

#: Of the clip: what a step on which the point has not moved is clipped to.
LEAST = 1e-9


class Follows:
    """What is kept of the estimate before, and the clip of what is added to it."""

    def __init__(self, smoothness):
        self.smoothness = real("smoothness", smoothness)
        if not 0.0 < self.smoothness < float("inf"):
            raise DPUserError(f"smoothness={smoothness!r}: by how much a gradient changes at most for each unit of distance, above 0")


class Storm(Follows):
    """STORM (Cutkosky and Orabona 2019): ``v = g(w) + (1 - forget) (v_before - g(w_before))``, both gradients on the same sample.

    ``forget`` between 0 and 1: 1 is a gradient of its own in each step. ``smoothness``: a contribution is clipped to
    ``forget max_grad_norm + (1 - forget) smoothness |w - w_before|``, which is no clip where gradients are no longer than ``max_grad_norm`` and
    change by no more than that; changes never count as more than ``2 max_grad_norm``. The first step is a gradient.
    """

    def __init__(self, *, forget, smoothness):
        super().__init__(smoothness)
        self.forget = real("forget", forget)
        if not 0.0 < self.forget <= 1.0:
            raise DPUserError(f"forget={forget!r} is not above 0 and at most 1")

    def kept(self, step):
        return 1.0 - self.forget if step else 0.0

    def __repr__(self):
        return f"Storm(forget={self.forget:g}, smoothness={self.smoothness:g})"


class Spider(Follows):
    """SPIDER (Fang et al. 2018) and SpiderBoost: every ``restart`` steps a gradient, and between them ``v = v_before + g(w) - g(w_before)``.

    Differences are clipped to ``smoothness |w - w_before|``, gradients to ``max_grad_norm``. All steps read samples of the same size.
    """

    def __init__(self, *, restart, smoothness):
        super().__init__(smoothness)
        self.restart = count("restart", restart, 1)

    def kept(self, step):
        return 1.0 if step % self.restart else 0.0

    def __repr__(self):
        return f"Spider(restart={self.restart}, smoothness={self.smoothness:g})"


class Estimate:
    """The estimate of a run, by what was released. Without ``follows`` each release is one."""

    def __init__(self, follows, clip):
        self._follows, self._clip = follows, clip
        self._step, self._at, self._before, self._value = 0, None, None, None

    @property
    def follows(self):
        """Whether there is any, with gradients at two points."""
        return self._follows is not None

    def begin(self, point):
        """The clip of the next step; none, where it is that of all. Points are released, and so is how far apart they are."""
        if self._follows is None:
            return None
        self._at = point()
        kept = self._follows.kept(self._step)
        if kept == 0.0:
            return None
        moved = sum(float(np.square((new.double() - old.double()).cpu().numpy()).sum()) for new, old in zip(self._at.values(), self._before.values()))
        change = self._follows.smoothness * moved**0.5
        # No further apart are two gradients within the clip, also where the walk has left all numbers.
        most = 2.0 * self._clip
        change = change if change < most else most
        return max((1.0 - kept) * self._clip + kept * change, LEAST * self._clip)

    @property
    def points(self):
        """Where gradients are taken, where those that are taken off are, and by how much."""
        kept = 0.0 if self._follows is None else self._follows.kept(self._step)
        return self._at, self._before if kept else None, kept

    def end(self, released):
        """The estimate with this release."""
        if self._follows is None:
            return released
        kept = self._follows.kept(self._step)
        self._value = released + kept * self._value if kept else released
        self._before, self._step = self._at, self._step + 1
        return self._value
