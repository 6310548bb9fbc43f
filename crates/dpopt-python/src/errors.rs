//! The exceptions of the package, with the messages of the library.

use dpopt::certify::PrivateCertificateError;
use dpopt::nonconvex::{PlanError as NoPlan, RunError};
use dpopt::privacy::ledger::LedgerError;
use dpopt::privacy::{Refused, UnitError};
use pyo3::{PyErr, import_exception};

import_exception!(dpopt.errors, Error);
import_exception!(dpopt.errors, DPUserError);
import_exception!(dpopt.errors, AccountingError);
import_exception!(dpopt.errors, PlanError);
import_exception!(dpopt.errors, BudgetError);
import_exception!(dpopt.errors, DataError);

/// A message about something that its caller said.
pub(crate) fn user(problem: impl std::fmt::Display) -> PyErr {
    DPUserError::new_err(problem.to_string())
}

/// What the whole chain of an error says.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut inner = error.source();
    while let Some(error) = inner {
        let said = error.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        inner = error.source();
    }
    text
}

pub(crate) fn accounting(error: dpopt::privacy::AccountingError) -> PyErr {
    AccountingError::new_err(chain(&error))
}

pub(crate) fn unit(error: UnitError) -> PyErr {
    user(error)
}

pub(crate) fn no_plan(error: NoPlan) -> PyErr {
    PlanError::new_err(chain(&error))
}

/// Before the release a certificate that can't be had is a plan that can't.
pub(crate) fn certificate(error: PrivateCertificateError) -> PyErr {
    match error {
        PrivateCertificateError::Ask(error) => Error::new_err(chain(&error)),
        error => PlanError::new_err(chain(&error)),
    }
}

pub(crate) fn data(error: impl std::error::Error) -> PyErr {
    DataError::new_err(chain(&error))
}

pub(crate) fn refused(error: Refused) -> PyErr {
    BudgetError::new_err(chain(&error))
}

pub(crate) fn ledger(error: LedgerError) -> PyErr {
    BudgetError::new_err(chain(&error))
}

pub(crate) fn run(error: RunError) -> PyErr {
    match error {
        RunError::Refused(error) => refused(error),
        error => Error::new_err(chain(&error)),
    }
}
