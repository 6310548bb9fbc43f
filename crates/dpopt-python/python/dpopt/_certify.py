"""Certificates: how stationary the point of a finished model is on private records, for a price."""

from dataclasses import dataclass

from . import _dpopt
from ._values import count, maybe, real, warn_of_ledger, word
from .accounting import Statement
from .errors import DPUserError

#: Said of bounds and classes that a guarantee does not cover.
FROM_DATA = "read off the records"


@dataclass(frozen=True)
class Certificate:
    """What is known of the mean loss of the records at the weights of a model, and of no other point, of no population, and not of whether it
    is a minimum. Each interval holds with probability ``1 - failure``, and so do the upper end of the first and the lower end of the second
    together.
    """

    #: Whether both targets are met; with none asked for, none.
    certified: bool | None
    #: (gradient norm, curvature), where they were asked for.
    targets: tuple[float, float] | None
    gradient_norm: tuple[float, float]
    #: Of the Hessian; none where the gradient norm was not certified: then nothing was spent on it.
    least_eigenvalue: tuple[float, float] | None
    failure: float
    #: The cost of the certificate alone. What the model cost on the same records comes on top of it.
    guarantee: Statement
    #: What the guarantee does not cover: bounds that were read off the records.
    rests_on: tuple[str, ...] = ()

    def __str__(self):
        lines = []
        if self.targets is not None:
            lines.append("certified" if self.certified else "NOT certified, which is no proof of the opposite")
        lines.append("the gradient norm is between {:.4g} and {:.4g}".format(*self.gradient_norm))
        if self.least_eigenvalue is not None:
            lines.append("the least eigenvalue of the Hessian is between {:.4g} and {:.4g}".format(*self.least_eigenvalue))
            if self.least_eigenvalue[1] < 0:
                lines.append("the point is no local minimum")
        rests_on = [f"rests on {one}" for one in self.rests_on]
        return "\n".join([*lines, f"each interval holds with probability {1 - self.failure:g}", str(self.guarantee), *rests_on])


class Certifiable:
    """Estimators whose linear models have certificates."""

    def certify(self, X, y=None, *, epsilon, delta, gradient=None, curvature=None, failure=0.05, ledger=None):
        """Releases how long the gradient of the mean loss is at the fitted weights, and how far the Hessian bends down: a :class:`Certificate`.

        It costs ``epsilon`` at ``delta`` beside what the model cost; ``ledger`` pays. Where that can't be written at the end, all that was set
        aside stays paid, and a ``RuntimeWarning`` says so. ``gradient`` and ``curvature``: targets, both or none. Of a
        linear model with one score and a loss with two derivatives.
        """
        table, placed = self._labelled(X, y)
        fitted = self._fitted
        if (gradient is None) != (curvature is None):
            raise DPUserError("give gradient= and curvature=, or none of both")
        if fitted["task"]["hidden"]:
            raise DPUserError("a perceptron has no constants that a certificate could rest on")
        targets = None if gradient is None else (real("gradient", gradient), real("curvature", curvature))
        task, delta = fitted["task"], real("delta", delta)
        wanted = {name: task[name] for name in ("loss", "label_bound", "class_weights", "records", "adjacency")}
        wanted.update(row_norm=placed["row_norm"], epsilon=real("epsilon", epsilon), delta=delta, targets=targets, failure=real("failure", failure))
        threads = maybe(count, "threads", self.threads, 1, 4096)
        self._warn_of_budget(wanted, table, 2)
        found = _dpopt.certify(table, wanted, fitted["weights"], threads, ledger)
        warn_of_ledger(found["unsettled"], 2)
        said = Statement(found["epsilon"], delta, word("adjacency", task["adjacency"]), found["accountant"], found["event"])
        met = None if targets is None else found["certified"]
        # What its solver rested on besides is no matter of the certificate.
        from_data = tuple(one for one in self.rests_on_ if FROM_DATA in one)
        return Certificate(met, targets, found["gradient_norm"], found["least_eigenvalue"], wanted["failure"], said, from_data)
