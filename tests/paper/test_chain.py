import json
from pathlib import Path

import numpy as np
import pytest

from lfiw.paper.chain import (
    WEIGHTINGS,
    Chain,
    ChainConfig,
    ChainResult,
    Epochs,
    epochs_below,
    error_curves,
    make_chain,
    mean_one_weights,
    run_chain,
    run_epoch,
    save_chain,
    squared_errors,
    stationary_distribution,
    transition_matrix,
    with_floor,
)


@pytest.fixture
def small() -> Chain:
    """Two states, right with 3/4, discount 1/2: V(right) = V(left) + 1 and V(left) = 3/4."""
    return make_chain(num_states=2, probability_right=0.75, discount=0.5)


@pytest.fixture(scope="module")
def measured() -> ChainResult:
    return run_chain(ChainConfig())


def test_walls_keep_the_agent_at_the_ends() -> None:
    to_left, to_middle, to_right = np.kron(np.eye(3), [0.75, 0.25])
    expected = [to_middle, to_left, to_right, to_left, to_right, to_middle]
    np.testing.assert_allclose(transition_matrix(3, 0.75), expected)


def test_true_q_by_hand(small: Chain) -> None:
    np.testing.assert_allclose(small.true_q, [0.875, 0.375, 1.875, 1.375])


def test_stationary_distribution_by_hand(small: Chain) -> None:
    np.testing.assert_allclose(small.stationary, np.array([3, 1, 9, 3]) / 16)


def test_stationary_distribution_of_five_states_is_in_detailed_balance() -> None:
    # Right against left is 4 : 1, so each state holds four times the mass of its left neighbour.
    states = np.array([1, 4, 16, 64, 256]) / 341
    expected = np.outer(states, [0.8, 0.2]).ravel()
    np.testing.assert_allclose(stationary_distribution(transition_matrix(5, 0.8)), expected)


def test_error_by_hand(small: Chain) -> None:
    q = np.array([[0.0, 0.0, 0.0, 0.0], [0.875, 0.375, 1.875, 3.375]])
    np.testing.assert_allclose(squared_errors(q, small), [2.484375, 4 * 3 / 16])


@pytest.mark.parametrize(
    ("weighting", "learning_rate", "expected"),
    [
        ("uniform", 0.1, [0, 0, 0.1, 0.1]),
        ("td_error", 0.1, [0, 0, 0.19, 0.19]),  # weights 0, 0, 2, 2: 1 - 0.9^2
        ("stationary", 0.75, [0, 0, 1 - 2**-4.5, 1 - 2**-1.5]),  # weights 9/4 and 3/4 of 1/4^w
    ],
)
def test_first_epoch_by_hand(
    small: Chain, weighting: str, learning_rate: float, expected: list[float]
) -> None:
    q = run_epoch(np.zeros((1, 4)), small, weighting, learning_rate)
    np.testing.assert_allclose(q, [expected])


def test_second_epoch_bootstraps_from_the_first(small: Chain) -> None:
    q = run_epoch(np.array([[0, 0, 0.1, 0.1]]), small, "uniform", 0.1)
    np.testing.assert_allclose(q, [[0.005, 0, 0.195, 0.19]])


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_the_true_q_is_a_fixed_point(small: Chain, weighting: str) -> None:
    np.testing.assert_allclose(
        run_epoch(small.true_q[None], small, weighting, 0.1)[0], small.true_q
    )


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_weights_of_each_q_have_mean_one(small: Chain, weighting: str) -> None:
    scales = np.array([[1e-6], [1.0], [1e6]])
    td_error = scales * np.random.default_rng(0).standard_normal((3, 4))
    weights = mean_one_weights(weighting, td_error, small.stationary)
    np.testing.assert_allclose(weights.mean(axis=1), 1)
    assert (weights >= 0).all()


def test_equal_or_no_td_errors_weigh_like_uniform(small: Chain) -> None:
    td_error = np.array([[2.0, -2.0, 2.0, -2.0], [0.0, 0.0, 0.0, 0.0], [3.0, 0.0, -1.0, 0.0]])
    weights = mean_one_weights("td_error", td_error, small.stationary)
    np.testing.assert_array_equal(weights, [[1, 1, 1, 1], [1, 1, 1, 1], [3, 0, 1, 0]])


def test_a_policy_without_preference_makes_stationary_equal_uniform() -> None:
    chain = make_chain(num_states=4, probability_right=0.5, discount=0.9)
    q = np.random.default_rng(0).random((3, 8))
    uniform, stationary = (run_epoch(q, chain, w, 0.3) for w in ("uniform", "stationary"))
    np.testing.assert_allclose(stationary, uniform)


def test_weights_of_one_are_plain_td(small: Chain) -> None:
    q = np.random.default_rng(0).random((3, 4))
    backup = small.reward + 0.5 * np.einsum("kj,ij->ik", small.transition, q)
    np.testing.assert_allclose(run_epoch(q, small, "uniform", 0.3), 0.7 * q + 0.3 * backup)


def test_epochs_below_counts_updates_and_is_strict() -> None:
    curves = {"a": np.array([4, 2, 1, 0.5]), "b": np.array([0.5]), "c": np.array([3.0, 2.0])}
    assert epochs_below(curves, 1.0) == {"a": 3, "b": 0, "c": None}


def test_measured_figures(measured: ChainResult) -> None:
    found = epochs_below(measured.curves[0.8], 1.0)
    assert found == {
        **{"uniform": 194, "td_error": 167, "stationary": 121, "stationary_floor": 112},
    }


def test_averaging_epochs_instead_of_errors_differs_by_less_than_one(measured: ChainResult) -> None:
    config = measured.config
    chain = make_chain(config.num_states, 0.8, config.discount)
    initial_q = np.random.default_rng(config.seed).random((config.num_initialisations, 10))
    for weighting, epochs in epochs_below(measured.curves[0.8], 1.0).items():
        errors = error_curves(initial_q, chain, weighting, config)
        assert abs((errors < 1).argmax(axis=0).mean() - (epochs or 0)) < 1


def published(epochs: Epochs) -> Epochs:
    """Of the weightings that the paper has."""
    return {name: count for name, count in epochs.items() if WEIGHTINGS[name].floor == 0}


def test_stationary_leads_early_and_is_overtaken_late(measured: ChainResult) -> None:
    curves = measured.curves[0.2]
    start = curves["uniform"][0]
    assert start < 1
    early, late = (published(epochs_below(curves, share * start)) for share in (0.1, 0.01))
    assert sorted(early, key=lambda w: early[w] or 0) == ["stationary", "td_error", "uniform"]
    assert sorted(late, key=lambda w: late[w] or 0) == ["td_error", "uniform", "stationary"]


def test_the_lead_at_error_1_turns_between_discounts_093_and_094(measured: ChainResult) -> None:
    for discount, curves in measured.sweep.items():
        below_1 = published(epochs_below(curves, 1.0))
        tenth = published(epochs_below(curves, 0.1 * curves["uniform"][0]))
        fastest = min(below_1, key=lambda w: below_1[w] or 0)
        assert fastest == ("stationary" if discount <= 0.93 else "td_error")
        assert min(tenth, key=lambda w: tenth[w] or 0) == "stationary"


def test_a_floor_is_ahead_of_uniform_and_td_error_everywhere(measured: ChainResult) -> None:
    """And of the stationary weights alone where they are late: from a discount of 0.9 on."""
    for discount, curves in measured.sweep.items():
        start = curves["uniform"][0]
        for threshold in (1.0, 0.1 * start, 0.01 * start):
            epochs = epochs_below(curves, threshold)
            with_a_floor = epochs.pop("stationary_floor")
            if discount < 0.9 or threshold == 0.1 * start:
                del epochs["stationary"]
            assert with_a_floor is not None
            assert with_a_floor < min(count or 10**9 for count in epochs.values())


def test_floor_by_hand() -> None:
    # Spreads 3 and 0.25: the first is mixed by sqrt((1 / 0.5 - 1) / 3), the second left alone.
    weights = np.array([[4.0, 0.0, 0.0, 0.0], [0.5, 1.5, 0.5, 1.5]])
    share = 1 / 3**0.5
    expected = [[1 + 3 * share, 1 - share, 1 - share, 1 - share], weights[1]]
    np.testing.assert_allclose(with_floor(weights, 0.5), expected)
    np.testing.assert_array_equal(with_floor(weights, 0.0), weights)
    np.testing.assert_array_equal(with_floor(weights, 1.0), np.ones((2, 4)))


def test_saved_files(measured: ChainResult, tmp_path: Path) -> None:
    json_path, png_path = save_chain(measured, tmp_path / "new")
    assert png_path.read_bytes().startswith(b"\x89PNG")
    saved = json.loads(json_path.read_text())
    assert saved["epochs_below_1"] == {
        "0.8": {"uniform": 194, "td_error": 167, "stationary": 121, "stationary_floor": 112},
        "0.2": dict.fromkeys(WEIGHTINGS, 0),
    }
    assert saved["epochs_below_1_paper"] == {"0.8": {"td_error": 182, "stationary": 120}}
    assert saved["epochs_below_share_of_start"]["0.1"]["0.2"]["stationary"] == 57
    assert saved["settings"]["learning_rate"] == 0.1
    sweep = saved["discount_sweep"]
    assert sweep["probability"] == 0.8
    assert sweep["epochs_below_1"]["0.9"] == saved["epochs_below_1"]["0.8"]
    assert list(sweep["epochs_below_1"]) == [str(d) for d in saved["settings"]["sweep_discounts"]]


def test_a_threshold_never_reached_is_saved_as_null_and_still_drawn(tmp_path: Path) -> None:
    config = ChainConfig(max_epochs=3, num_initialisations=2, sweep_discounts=(0.9,))
    json_path, _ = save_chain(run_chain(config), tmp_path)
    assert json.loads(json_path.read_text())["epochs_below_1"]["0.8"]["stationary"] is None


def test_the_seed_sets_the_result() -> None:
    first, same, other = (
        run_chain(ChainConfig(max_epochs=3, num_initialisations=2, sweep_discounts=(), seed=seed))
        for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first.curves[0.8]["td_error"], same.curves[0.8]["td_error"])
    assert (first.curves[0.8]["td_error"] != other.curves[0.8]["td_error"]).all()


@pytest.mark.parametrize(
    "config", [{"discount": 1.0}, {"probabilities": (0.0,)}, {"learning_rate": 1.5}]
)
def test_settings_outside_their_range_are_named(config: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="choose it in"):
        ChainConfig(**config)  # type: ignore[arg-type]
