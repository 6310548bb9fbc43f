"""Numbers from outside of the package: closed forms, other accountants, published values."""

import json
import pickle

import dpopt
import numpy as np
import pytest
from dpopt import Event
from scipy.optimize import brentq
from scipy.stats import norm


def gaussian_delta(mu, epsilon):
    """Balle and Wang 2018, Theorem 8, for a Gaussian mechanism of sensitivity over deviation mu."""
    return norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon + norm.logcdf(-mu / 2 - epsilon / mu))


@pytest.mark.parametrize("mu", [0.1, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-6])
def test_a_gaussian_release_costs_what_the_closed_form_says(mu, delta):
    expected = brentq(lambda e: gaussian_delta(mu, e) - delta, 1e-9, 100, xtol=1e-13)
    found = dpopt.epsilon(Event.gaussian(1 / mu), delta=delta, adjacency="add-remove")
    assert expected - 1e-9 <= found <= expected * (1 + 1e-6) + 1e-9
    assert dpopt.delta(Event.gaussian(1 / mu), epsilon=found, adjacency="add-remove") == pytest.approx(delta, rel=1e-4)


def test_dp_sgd_costs_the_tight_number():
    event = Event.gaussian(1.0).poisson_sampled(0.01).repeated(1000)
    said = dpopt.account(event, delta=1e-5, adjacency="add-remove")
    assert said.accountant == "exact"
    # A tight value to eight digits, from multi-precision arithmetic.
    assert said.epsilon == pytest.approx(1.8282367, abs=1e-6)
    assert "under add-remove adjacency" in str(said) and "1.8283" in str(said)
    assert event.releases == 1000


@pytest.mark.parametrize("rate", [1.0, 0.01])
@pytest.mark.parametrize(("adjacency", "theirs"), [("add-remove", "ADD_OR_REMOVE_ONE"), ("replace-one", "REPLACE_ONE")])
def test_others_agree(adjacency, theirs, rate):
    their = pytest.importorskip("dp_accounting")
    from dp_accounting.pld import PLDAccountant

    one = their.GaussianDpEvent(2.0)
    event = their.SelfComposedDpEvent(one if rate == 1.0 else their.PoissonSampledDpEvent(rate, one), 100)
    ours = dpopt.from_dp_accounting(event, adjacency=adjacency)
    assert dpopt.to_dp_accounting(ours, adjacency=adjacency) == event
    found = PLDAccountant(their.NeighboringRelation[theirs]).compose(event).get_epsilon(1e-5)
    assert dpopt.epsilon(ours, delta=1e-5, adjacency=adjacency) == pytest.approx(found, rel=2e-3)
    half = 0.5 if adjacency == "replace-one" else 1.0
    as_it_is = dpopt.from_dp_accounting(event, adjacency=adjacency, noise_over="sensitivity")
    one = Event.gaussian(2.0 * half)
    assert ours == (one if rate == 1.0 else one.poisson_sampled(rate)).repeated(100)
    assert (ours == as_it_is) == (half == 1.0)


def test_noise_that_is_told_otherwise_is_not_guessed():
    their = pytest.importorskip("dp_accounting")
    event = their.dp_event.DiscreteLaplaceDpEvent(1.0, 1)
    dpopt.from_dp_accounting(event, adjacency="add-remove")
    with pytest.raises(dpopt.DPUserError, match="sensitivity"):
        dpopt.from_dp_accounting(event, adjacency="replace-one")


def test_calibration_is_the_boundary():
    budget = dict(epsilon=1.0, delta=1e-5, adjacency="add-remove")
    z = dpopt.noise_multiplier(**budget, steps=1000, sampling_rate=0.01)
    cost = lambda z: dpopt.epsilon(  # noqa: E731
        Event.gaussian(z).poisson_sampled(0.01).repeated(1000), delta=1e-5, adjacency="add-remove"
    )
    assert cost(z) <= 1.0 < cost(z * 0.999)
    steps = dpopt.steps(**budget, noise_multiplier=z, sampling_rate=0.01)
    assert steps == 1000


def test_what_a_multiplier_is_over_is_never_assumed():
    budget = dict(epsilon=1.0, delta=1e-5, adjacency="replace-one", steps=10)
    over_clip = dpopt.noise_multiplier(**budget)
    over_sensitivity = dpopt.noise_multiplier(**budget, noise_over="sensitivity")
    assert over_clip == 2 * over_sensitivity
    with pytest.raises(dpopt.DPUserError, match="noise_over"):
        dpopt.noise_multiplier(**budget, noise_over="batch")
    with pytest.raises(TypeError, match="adjacency"):
        dpopt.epsilon(Event.gaussian(1.0), delta=1e-5)


def test_an_attacker_is_bounded():
    rates = np.array([0.0, 0.01, 0.5, 1.0])
    power = dpopt.attacker(Event.gaussian(1.0), false_positive_rate=rates, adjacency="add-remove")
    exact = norm.cdf(norm.ppf(rates) + 1.0)
    assert np.all(power >= exact - 1e-9) and np.all(power <= exact + 2e-3)
    with pytest.raises(dpopt.DPUserError):
        dpopt.attacker(Event.gaussian(1.0), false_positive_rate=1.5, adjacency="add-remove")


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf")])
def test_numbers_that_mean_nothing_are_refused(bad):
    with pytest.raises(dpopt.DPUserError):
        Event.gaussian(bad)
    with pytest.raises(dpopt.DPUserError):
        Event.gaussian(1.0).poisson_sampled(bad)
    with pytest.raises(dpopt.DPUserError):
        dpopt.epsilon(Event.gaussian(1.0), delta=bad, adjacency="add-remove")


def test_names_are_listed_where_they_are_wrong():
    with pytest.raises(dpopt.DPUserError, match="add-remove"):
        dpopt.epsilon(Event.gaussian(1.0), delta=1e-5, adjacency="unbounded")
    with pytest.raises(dpopt.DPUserError, match="pld"):
        dpopt.epsilon(Event.gaussian(1.0), delta=1e-5, adjacency="add-remove", accountant="moments")
    with pytest.raises(dpopt.AccountingError):
        dpopt.epsilon(Event.from_json('{"class_name": "NonPrivateDpEvent"}'), delta=1e-5, adjacency="add-remove", accountant="gdp")


def test_events_travel():
    event = Event.composed([Event.gaussian(2.0), Event.gaussian(1.0).poisson_sampled(0.1).repeated(5)])
    assert pickle.loads(pickle.dumps(event)) == event
    assert Event.from_json(event.to_json()) == event
    assert json.loads(event.to_json())["class_name"] == "ComposedDpEvent"
    assert hash(pickle.loads(pickle.dumps(event))) == hash(event)
    with pytest.raises(dpopt.DPUserError):
        Event.from_json("{")


def test_what_can_be_made_can_be_accounted_and_written():
    event = Event.gaussian(2.0)
    with pytest.raises(dpopt.DPUserError, match="one list"):
        for i in range(10_000):
            event = Event.composed([event, Event.gaussian(2.0 + i)])
    assert pickle.loads(pickle.dumps(event)) == event
    assert dpopt.epsilon(event, delta=1e-5, adjacency="add-remove") > 0


def test_a_statement_rounds_against_who_states_it():
    said = str(dpopt.account(Event.gaussian(3.0), delta=1.0000004e-5, adjacency="add-remove"))
    assert "1.0000004e-05" in said
    # The total variation of two Gaussians at distance 1/3: 2 Phi(1/6) - 1.
    assert dpopt.delta(Event.gaussian(3.0), epsilon=0, adjacency="add-remove") == pytest.approx(2 * norm.cdf(1 / 6) - 1, rel=1e-6)
