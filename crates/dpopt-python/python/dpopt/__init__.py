"""Nonconvex optimisation under differential privacy.

Accounting needs NumPy alone; the estimators are made for scikit-learn and work without it.
"""

from importlib import import_module

from ._dpopt import Event, Ledger, Schema, __version__, losses, solvers
from .accounting import (
    Statement,
    account,
    attacker,
    delta,
    epsilon,
    from_dp_accounting,
    noise_multiplier,
    steps,
    to_dp_accounting,
)
from ._certify import Certificate
from ._check import Unforeseen
from .errors import AccountingError, BudgetError, DataError, DPUserError, Error, PlanError, WeakGuaranteeWarning
from ._plans import Plan
from ._rates import Rate, verify_rate
from ._steps import PrivateSteps

_TABLES = ("PrivateClassifier", "PrivateGroupDRO", "PrivateMLPClassifier", "PrivateRanker", "PrivateRegressor")

__all__ = [
    "AccountingError", "BudgetError", "Certificate", "DPUserError", "DataError", "Error", "Event", "Ledger", "Plan", "PlanError", "PrivateSteps", "Rate", "Schema", "Statement", "Unforeseen", "WeakGuaranteeWarning", "__version__",
    "account", "attacker", "delta", "epsilon", "from_dp_accounting", "losses", "noise_multiplier", "solvers", "steps",
    "to_dp_accounting", "verify_rate", *_TABLES,
]  # fmt: skip


def __getattr__(name):
    # scikit-learn takes a second to import, and accounting does not need it.
    if name in _TABLES:
        return getattr(import_module("._tables", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted(__all__)
