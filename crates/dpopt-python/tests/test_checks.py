"""scikit-learn's own checks, but for those that privacy forbids."""

import numpy as np
import pytest
from dpopt import PrivateClassifier, PrivateRegressor
from sklearn.utils.estimator_checks import check_dataframe_column_names_consistency, parametrize_with_checks

NOISE = "two fits are compared, and each draws its own noise"
SILENT = "an error would tell of a record; what is no number is a NaN, and counts as the middle"
OBJECTS = "an array of objects may hold anything, and its type is public: it is refused, whatever it holds"
#: Checks that must fail, and why.
FORBIDDEN = {
    PrivateClassifier: {"check_fit_idempotent": NOISE, "check_dtype_object": OBJECTS},
    PrivateRegressor: {
        "check_fit_idempotent": NOISE,
        "check_dtype_object": OBJECTS,
        "check_regressors_int": NOISE,
        "check_regressor_data_not_an_array": NOISE,
        "check_supervised_y_2d": NOISE,
        "check_supervised_y_no_nan": SILENT,
    },
}
#: Checks that noise lets pass or fail.
BY_CHANCE = {PrivateClassifier: {"check_supervised_y_2d"}, PrivateRegressor: set()}
# A budget that hides nothing, and public facts read off the records: the checks are not about privacy.
PUBLIC = dict(epsilon=1e4, delta=1e-2, bounds_from_data=True, max_steps=50)


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(
    [PrivateClassifier(**PUBLIC), PrivateRegressor(**PUBLIC)],
    expected_failed_checks=lambda estimator: FORBIDDEN[type(estimator)],
    xfail_strict=True,
)
def test_scikit_learn(estimator, check):
    if check.func.__name__ in BY_CHANCE[type(estimator)]:
        pytest.skip(NOISE)
    np.random.seed(0)
    check(estimator)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("estimator", [PrivateClassifier(**PUBLIC), PrivateRegressor(**PUBLIC)])
def test_names_of_columns(estimator):
    check_dataframe_column_names_consistency(type(estimator).__name__, estimator)
