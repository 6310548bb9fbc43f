"""Steps on gradients from Python. Tests of laws state their false alarm rate."""

import threading
import warnings

import dpopt
import numpy as np
import pytest
from dpopt import Event, PrivateSteps
from scipy import sparse, stats

PUBLIC = dict(records=50, dim=400, clip=2.0, steps=3, adjacency="replace-one")


def test_a_release_is_the_clipped_mean_with_noise_of_the_stated_size():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(50, 400))
    clipped = rows * np.minimum(1, 2.0 / np.linalg.norm(rows, axis=1, keepdims=True))
    private = PrivateSteps(**PUBLIC, noise_multiplier=3.0)
    residuals = []
    for positions in private:
        assert np.array_equal(positions, np.arange(50))
        # In parts, in both precisions, in any layout.
        private.add(rows[:10])
        private.add(np.asfortranarray(rows[10:30]))
        private.add(rows[30:].astype(np.float32))
        residuals.append(private.release() - clipped.mean(axis=0))
    # Over the clip radius: 3 x 2 over 50 records. 1,200 draws; each test is wrong once in 1e6.
    z = np.concatenate(residuals) / (3.0 * 2.0 / 50)
    assert stats.kstest(z, "norm").pvalue > 1e-6
    assert abs(stats.chi2(len(z)).cdf((z**2).sum()) - 0.5) < 0.5 - 5e-7
    said = private.guarantee(1e-6)
    # Over the sensitivity it is half.
    assert said.event == Event.gaussian(1.5).repeated(3) and said.adjacency == "replace-one"


def test_outer_products_are_the_rows_that_they_stand_for():
    rng = np.random.default_rng(0)
    settings = dict(records=50, dim=12 * 21 + 30, clip=1.0, steps=1, adjacency="zero-out", noise_multiplier=1e-6)
    factors = [(rng.normal(size=(50, 12)), rng.normal(size=(50, 21))), (np.ones((50, 1)), rng.normal(size=(50, 30)).astype(np.float32))]
    for pair in factors:
        pair[0][:] *= rng.uniform(0, 0.1, (50, 1))
    rows = np.concatenate([np.einsum("rm,rn->rmn", *pair).reshape(50, -1) for pair in factors], axis=1)
    assert np.linalg.norm(rows, axis=1).min() < 1 < np.linalg.norm(rows, axis=1).max()
    found = []
    for by_factors in (True, False):
        private = PrivateSteps(**settings)
        private.draw()
        for part in (slice(0, 20), slice(20, 50)):
            if by_factors:
                private.add_products((np.asfortranarray(left[part]), right[part]) for left, right in factors)
            else:
                private.add(rows[part])
        found.append(private.release())
    # At most dim**0.25 / 2**14.5 of the clip for a record, and these lie every which way.
    assert np.linalg.norm(found[0] - found[1]) < 282**0.25 / 2**14.5


def test_no_outer_product_is_longer_than_the_clip():
    left = np.array([[1e200, 0], [np.nan, 1], [np.inf, 0], [0.5, 0], [0, 0]])
    right = np.array([[1e100, 0, 0], [1, 1, 1], [0, 1, 0], [0, 0, 0.5], [np.nan, 1, 1]])
    private = PrivateSteps(records=5, dim=6, clip=1.0, steps=1, adjacency="zero-out", noise_multiplier=1e-6, noise_over="sensitivity")
    private.draw()
    private.add_products([(left, right)])
    # The longest is cut to a little less than the clip.
    assert np.allclose(private.release() * 5, [1, 0, 0.25, 0, 0, 0], atol=2e-4)


def test_outer_products_of_another_shape_are_refused():
    private = PrivateSteps(**PUBLIC, noise_multiplier=1.0)
    private.draw()
    some = np.ones((50, 20))
    for wrong in [
        [],
        [(some, np.ones((50, 19)))],
        [(some, np.ones((49, 20)))],
        [(some, some), (some, some)],
        [(some, some), (some, np.ones((50, 0)))],
        [(np.ones((51, 20)), np.ones((51, 20)))],
        [(np.ones(20), some)],
        [(np.ones((0, 2**40)), np.ones((0, 2**40)))],
    ]:
        with pytest.raises(dpopt.DPUserError):
            private.add_products(wrong)
    # The step is still there, and has room for all.
    private.add_products([(some, some)])
    with pytest.raises(dpopt.DPUserError, match="contributes once"):
        private.add_products([(some[:1], some[:1])])
    private.release()


def test_nothing_makes_a_record_longer():
    private = PrivateSteps(records=4, dim=2, clip=1.0, steps=1, adjacency="zero-out", noise_multiplier=1e-6, noise_over="sensitivity")
    private.draw()
    private.add(np.array([[1e300, 0], [np.nan, 1], [np.inf, np.inf], [0, 0.25]]))
    assert np.allclose(private.release(), [0.25, 0.0625], atol=1e-4)


def test_no_more_rows_than_were_drawn():
    private = PrivateSteps(**PUBLIC, noise_multiplier=1.0)
    private.draw()
    private.add(np.zeros((50, 400)))
    with pytest.raises(dpopt.DPUserError, match="contributes once"):
        private.add(np.zeros((1, 400)))
    private.release()
    with pytest.raises(dpopt.DPUserError, match="no step"):
        private.release()
    with pytest.raises(dpopt.DPUserError, match="no step"):
        private.add(np.zeros((1, 400)))
    private.draw()
    with pytest.raises(dpopt.DPUserError, match="not released"):
        private.draw()


def test_the_steps_end_where_they_were_reserved():
    private = PrivateSteps(**PUBLIC, noise_multiplier=1.0)
    for _ in private:
        private.release()
    with pytest.raises(dpopt.BudgetError):
        private.draw()


def test_samples_have_the_stated_law():
    private = PrivateSteps(
        records=1000, public_records=900, dim=1, clip=1.0, steps=200, adjacency="add-remove", sampling_rate=0.1, noise_multiplier=1e-6
    )
    counts = np.zeros(1000)
    for positions in private:
        assert np.all(np.diff(positions) > 0)
        counts[positions] += 1
        private.add(np.full((len(positions), 1), 0.5))
        # Over the public number that is expected.
        assert private.release() == pytest.approx([0.5 * len(positions) / 90], abs=1e-4)
    # 200,000 coins at .1: six deviations, wrong once in 5e8. And of each record alike: wrong once in 1e6.
    assert abs(counts.sum() - 20000) < 6 * np.sqrt(200000 * 0.09)
    spread = ((counts - 20) ** 2 / (200 * 0.09)).sum()
    assert 5e-7 < stats.chi2(1000).cdf(spread) < 1 - 5e-7


def test_a_budget_is_what_it_says(tmp_path):
    ledger = dpopt.Ledger(tmp_path / "ledger.jsonl", epsilon=2.0, delta=1e-5, adjacency="zero-out", filter="rdp")
    of = dict(records=100, dim=3, clip=1.0, steps=10, sampling_rate=0.2, adjacency="zero-out", epsilon=1.0, delta=1e-6, ledger=ledger)
    with PrivateSteps(**of) as private:
        assert private.guarantee().epsilon <= 1.0
        assert private.guarantee().epsilon > 0.99
        private.draw()
        private.release()
    # One step of ten: the rest went back.
    for _ in range(20):
        with PrivateSteps(**of):
            pass
    with pytest.raises(dpopt.BudgetError):
        held = [PrivateSteps(**of) for _ in range(20)]
        assert held


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        (dict(), "epsilon="),
        (dict(epsilon=1.0), "delta="),
        (dict(epsilon=1.0, delta=1e-6, noise_multiplier=1.0), "or noise_multiplier="),
        (dict(noise_multiplier=0.0), "multiplier"),
        (dict(noise_multiplier=1.0, clip=np.inf), "inf"),
        (dict(noise_multiplier=1.0, steps=0), "one step"),
        (dict(noise_multiplier=1.0, sampling_rate=1.5), "1.5"),
        (dict(noise_multiplier=1.0, adjacency="add-remove"), "public_records="),
        (dict(noise_multiplier=1.0, public_records=49), "49"),
        (dict(noise_multiplier=1.0, records=0), "records"),
        (dict(noise_multiplier=1.0, records=2**33), "4294967296"),
        (dict(noise_multiplier=1.0, adjacency="add-remove", public_records=0), "from 1 "),
        (dict(noise_multiplier=1.0, dim=0), "coordinate"),
        # The secret number of records is in no warning either.
        (dict(noise_multiplier=1e-3, adjacency="add-remove"), "public_records="),
        (dict(epsilon=1.0, delta=0.5, adjacency="add-remove"), "public_records="),
    ],
)
def test_what_is_wrong_is_said_at_once(settings, match):
    secret = settings.get("adjacency") == "add-remove"
    with warnings.catch_warnings(), pytest.raises(dpopt.Error, match=match):
        warnings.simplefilter("error" if secret else "default")
        PrivateSteps(**{**PUBLIC, **settings})


def test_gradients_of_another_shape_are_refused():
    private = PrivateSteps(**PUBLIC, noise_multiplier=1.0)
    private.draw()
    for wrong in [np.zeros(400), np.zeros((50, 399))]:
        with pytest.raises(dpopt.DPUserError):
            private.add(wrong)
    # The step is still there.
    private.release()


def test_two_threads_do_not_share_a_step():
    private = PrivateSteps(records=500, dim=500, clip=1.0, steps=60, adjacency="zero-out", noise_multiplier=1.0)
    ended, failed = [], []

    def work():
        for _ in range(30):
            try:
                private.draw()
                private.add(np.zeros((500, 500), dtype=np.float32))
                ended.append(private.release())
            except dpopt.DPUserError:
                pass
            except BaseException as error:
                failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(2)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not failed
    # What was released is what was charged, whoever asked.
    assert private.settle().releases == len(ended) > 0


def test_a_row_that_changes_while_it_is_added_is_clipped():
    """Each trial wins the race with the old code more often than not; that all twelve lose it is rarer than once in a thousand."""
    for delay in np.linspace(0.0, 0.3, 12):
        rows = np.zeros((2000, 500))
        rows[:, 0] = 1e-3
        private = PrivateSteps(records=2000, dim=500, clip=1.0, steps=1, adjacency="zero-out", noise_multiplier=1e-4)
        private.draw()

        def write(rows=rows):
            rows[-1, 0] = 1e6

        timer = threading.Timer(delay, write)
        timer.start()
        private.add(rows)
        timer.join()
        # 1,999 rows of a thousandth, and one of at most the radius.
        assert private.release()[0] * 2000 < 3.1


def test_a_failed_step_is_no_end():
    private = PrivateSteps(**PUBLIC, noise_multiplier=1.0)
    private.draw()
    for wrong in [np.zeros((50, 400), dtype=complex), np.array([["a"] * 400] * 50)]:
        with pytest.raises(dpopt.DPUserError):
            private.add(wrong)
    packed = np.zeros(50, dtype=[("a", "u1"), ("b", "f8", (400,))])
    private.add(packed["b"])
    private.release()
    private.settle()


EPOCHS = dict(records=103, clip=2.0, epochs=3, batch_size=10, adjacency="zero-out")


def test_epochs_read_each_record_once():
    rows = np.random.default_rng(1).normal(size=(103, 7))
    clipped = rows * np.minimum(1, 2.0 / np.linalg.norm(rows, axis=1, keepdims=True))
    private = PrivateSteps(**EPOCHS, dim=7, noise_multiplier=1e-6, momentum=0.9, cool_down=0.5)
    seen = []
    for positions in private:
        assert len(positions) in (10, 11)
        seen.append(positions)
        private.add(rows[positions])
        assert np.allclose(private.release(), clipped[positions].mean(axis=0), atol=1e-3)
    assert len(seen) == private.steps == 30
    assert np.array_equal(np.sort(np.concatenate(seen[:10])), np.arange(103))
    # The same slices again, in no order that the table has.
    for first, second, third in zip(seen[:10], seen[10:20], seen[20:]):
        assert np.array_equal(first, second) and np.array_equal(first, third)
    assert not np.array_equal(seen[0], np.arange(len(seen[0])))
    with pytest.raises(dpopt.BudgetError, match="30"):
        private.draw()


def test_slices_are_public_and_repeat_by_their_seed():
    orders = [PrivateSteps(**EPOCHS, dim=1, noise_multiplier=1.0, seed=seed).draw() for seed in (5, 5, 6)]
    assert np.array_equal(orders[0], orders[1]) and not np.array_equal(orders[0], orders[2])


def test_where_every_step_reads_all_records_the_noise_is_independent():
    # Of one slice read 4 times: sensitivity 2 of 1 each, and no bands. 2,000 draws; wrong once in 1e6.
    private = PrivateSteps(records=5, dim=500, clip=2.0, epochs=4, batch_size=5, adjacency="zero-out", noise_multiplier=3.0)
    z = []
    for _ in private:
        z.append(private.release() / (2 * 3.0 * 2.0 / 5))
    z = np.concatenate(z)
    assert stats.kstest(z, "norm").pvalue > 1e-6
    # Of steps that have nothing in common: wrong once in 1e6 each.
    for lag in (500, 1000):
        r = np.corrcoef(z[:-lag], z[lag:])[0, 1]
        assert abs(r) < 4.9 / np.sqrt(len(z) - lag)


def test_sums_over_epochs_have_less_noise_than_independent_steps():
    dim, steps = 300, 4 * 32
    private = PrivateSteps(records=32, dim=dim, clip=1.0, epochs=4, batch_size=1, adjacency="zero-out", noise_multiplier=1.0)
    sums = np.zeros(dim)
    for _ in private:
        sums += private.release()
    # As independent Gaussians that cost as much: a record 4 times, 128 steps.
    assert (sums**2).mean() < 0.5 * 4 * steps


def test_epochs_cost_one_gaussian():
    private = PrivateSteps(**EPOCHS, dim=1, epsilon=1.0, delta=1e-6)
    said = private.guarantee()
    assert 0.999 < said.epsilon <= 1.0
    assert said.epsilon == pytest.approx(dpopt.epsilon(Event.gaussian(private.noise_multiplier), delta=1e-6, adjacency="zero-out"), rel=1e-6)
    # Over the clip norm it is twice as much under replace-one, as everywhere.
    other = PrivateSteps(**EPOCHS | dict(adjacency="replace-one"), dim=1, epsilon=1.0, delta=1e-6)
    assert other.noise_multiplier == pytest.approx(2 * private.noise_multiplier, rel=1e-6)


def test_nothing_is_released_after_the_end():
    private = PrivateSteps(**EPOCHS, dim=1, noise_multiplier=1.0)
    for _ in range(12):
        private.draw()
        private.release()
    private.draw()
    event = private.settle()
    # All slices were read, and pay for the whole.
    assert dpopt.epsilon(event, delta=1e-6, adjacency="zero-out") == pytest.approx(private.guarantee(1e-6).epsilon, rel=1e-9)
    with pytest.raises(dpopt.DPUserError, match="no step"):
        private.release()
    with pytest.raises(dpopt.BudgetError):
        private.draw()


def test_epochs_that_stop_early_have_paid_for_the_slices_that_were_read(tmp_path):
    ledger = dpopt.Ledger(tmp_path / "ledger.jsonl", epsilon=1.0, delta=1e-6, adjacency="zero-out")
    private = PrivateSteps(**EPOCHS, dim=1, epsilon=0.5, delta=1e-6, ledger=ledger)
    private.settle()
    again = PrivateSteps(**EPOCHS, dim=1, epsilon=0.9, delta=1e-6, ledger=ledger)
    again.draw()
    again.release()
    again.settle()
    with pytest.raises(dpopt.BudgetError):
        PrivateSteps(**EPOCHS, dim=1, epsilon=0.9, delta=1e-6, ledger=ledger)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (dict(steps=30), "steps="),
        (dict(epochs=None), "batch_size="),
        (dict(batch_size=None), "batch_size="),
        (dict(batch_size=104), "batch"),
        (dict(batch_size=0), "batch_size"),
        (dict(epochs=0), "epochs"),
        (dict(sampling_rate=0.5), "no samples"),
        (dict(momentum=1.0), "momentum"),
        (dict(momentum=float("nan")), "momentum"),
        (dict(cool_down=1.5), "cool_down"),
        (dict(adjacency="add-remove", public_records=103), "dp-mf"),
        (dict(epochs=10**9), "steps"),
    ],
)
def test_epochs_that_no_run_can_have_are_refused(wrong, said):
    with pytest.raises((dpopt.DPUserError, dpopt.PlanError), match=said):
        PrivateSteps(**EPOCHS | wrong, dim=1, noise_multiplier=1.0)
    with pytest.raises(dpopt.DPUserError, match="correlated"):
        PrivateSteps(**PUBLIC, noise_multiplier=1.0, momentum=0.5)


def test_a_step_has_a_clip_of_its_own_and_noise_that_goes_with_it():
    with PrivateSteps(records=50, dim=2, clip=1.0, noise_multiplier=1e-6, steps=3, adjacency="zero-out") as private:
        for clip, length in [(None, 1.0), (0.25, 0.25), (4.0, 3.0)]:
            positions = private.draw(clip)
            private.add(np.tile([3.0, 0.0], (len(positions), 1)))
            assert np.allclose(private.release(), [length, 0.0], atol=1e-4)
    for wrong in (0.0, -1.0, float("nan"), float("inf")):
        with PrivateSteps(records=50, dim=2, clip=1.0, noise_multiplier=1.0, steps=1, adjacency="zero-out") as private:
            with pytest.raises(dpopt.DPUserError):
                private.draw(wrong)
            assert private.left == 1
    squares = []
    with PrivateSteps(records=1, dim=2000, clip=1.0, noise_multiplier=2.0, steps=1, adjacency="zero-out") as private:
        private.draw(0.25)
        squares.append(np.square(private.release() / 0.5).mean())
    # Six standard deviations of a mean of 2,000 squares.
    assert abs(squares[0] - 1.0) < 6 * (2 / 2000) ** 0.5
    with PrivateSteps(records=50, dim=2, clip=1.0, noise_multiplier=1.0, epochs=2, batch_size=10, adjacency="zero-out") as private:
        with pytest.raises(dpopt.DPUserError, match="one clip"):
            private.draw(0.5)


def test_sparse_rows_are_what_they_are_when_they_are_dense():
    rng = np.random.default_rng(3)
    dense = np.where(rng.random((40, 300)) < 0.05, rng.normal(size=(40, 300)), 0.0)
    dense[7] = 0.0
    rows = sparse.csr_matrix(dense)
    released = []
    for dtype in (np.float64, np.float32):
        with PrivateSteps(records=40, dim=300, clip=1.0, noise_multiplier=1e-6, steps=2, adjacency="zero-out") as private:
            for add in (lambda: private.add(dense.astype(dtype)), lambda: private.add_sparse(rows.indptr, rows.indices, rows.data.astype(dtype))):
                private.draw()
                add()
                released.append(private.release())
    clipped = dense / np.maximum(1.0, np.linalg.norm(dense, axis=1, keepdims=True))
    for one in released:
        assert np.allclose(one, clipped.mean(axis=0), atol=1e-6)


@pytest.mark.parametrize("columns", [[1, 1], [2, 1], [1, 9], [-1, 1], [1, 2**40]])
def test_a_sparse_row_with_odd_columns_counts_as_zero(columns):
    with PrivateSteps(records=2, dim=5, clip=10.0, noise_multiplier=1e-6, steps=1, adjacency="zero-out") as private:
        private.draw()
        private.add_sparse([0, 2, 3], [*columns, 4], [1.0, 1.0, 3.0])
        assert np.allclose(private.release(), [0, 0, 0, 0, 1.5], atol=1e-4)


@pytest.mark.parametrize(("starts", "columns"), [([0, 3], [1, 2]), ([1, 2], [1, 2]), ([0, 2, 1, 2], [1, 2]), ([], []), ([0, -1, 2], [1, 2]), ([[0, 2]], [1, 2])])
def test_sparse_rows_that_are_none_are_refused(starts, columns):
    with PrivateSteps(records=9, dim=5, clip=10.0, noise_multiplier=1.0, steps=1, adjacency="zero-out") as private:
        private.draw()
        with pytest.raises(dpopt.DPUserError):
            private.add_sparse(starts, columns, np.ones(len(columns)))
        # More rows than records were drawn: nothing is added.
        with pytest.raises(dpopt.DPUserError, match="more gradients"):
            private.add_sparse(np.zeros(11, dtype=np.int64), [], np.zeros(0))
