"""What this package refuses, with the messages of the library. Nothing was released that was not paid for."""


class Error(Exception):
    """Any of them."""


class DPUserError(Error, ValueError):
    """Something public is missing or wrong: a bound, a class, a budget, a name."""


class AccountingError(Error):
    """No accountant states an epsilon of these releases."""


class PlanError(Error):
    """No plan fits the public facts and the budget."""


class BudgetError(Error):
    """A ledger or a curator refused to pay."""


class DataError(Error):
    """Records can't be taken as they are."""


class WeakGuaranteeWarning(UserWarning):
    """A budget that hides next to nothing: an epsilon above 10, a delta at or above one over the number of records. It comes before anything
    is charged, and follows from public numbers alone."""
