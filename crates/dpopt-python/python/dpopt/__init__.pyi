from ._dpopt import Event as Event
from ._dpopt import Ledger as Ledger
from ._dpopt import Schema as Schema
from ._dpopt import __version__ as __version__
from ._dpopt import losses as losses
from ._dpopt import solvers as solvers
from ._certify import Certificate as Certificate
from ._check import Unforeseen as Unforeseen
from ._plans import Plan as Plan
from ._rates import Rate as Rate
from ._rates import verify_rate as verify_rate
from ._steps import PrivateSteps as PrivateSteps
from ._tables import PrivateClassifier as PrivateClassifier
from ._tables import PrivateGroupDRO as PrivateGroupDRO
from ._tables import PrivateMLPClassifier as PrivateMLPClassifier
from ._tables import PrivateRanker as PrivateRanker
from ._tables import PrivateRegressor as PrivateRegressor
from .accounting import Statement as Statement
from .accounting import account as account
from .accounting import attacker as attacker
from .accounting import delta as delta
from .accounting import epsilon as epsilon
from .accounting import from_dp_accounting as from_dp_accounting
from .accounting import noise_multiplier as noise_multiplier
from .accounting import steps as steps
from .accounting import to_dp_accounting as to_dp_accounting
from .errors import AccountingError as AccountingError
from .errors import BudgetError as BudgetError
from .errors import DataError as DataError
from .errors import DPUserError as DPUserError
from .errors import Error as Error
from .errors import PlanError as PlanError
from .errors import WeakGuaranteeWarning as WeakGuaranteeWarning

__all__ = [
    "AccountingError", "BudgetError", "Certificate", "DPUserError", "DataError", "Error", "Event", "Ledger", "Plan", "PlanError", "PrivateSteps", "Rate", "Schema",
    "Statement", "Unforeseen", "WeakGuaranteeWarning", "__version__", "account", "attacker", "delta", "epsilon", "from_dp_accounting", "losses", "noise_multiplier", "solvers",
    "steps", "to_dp_accounting", "verify_rate", "PrivateClassifier", "PrivateGroupDRO", "PrivateMLPClassifier", "PrivateRanker", "PrivateRegressor",
]  # fmt: skip
