import json
from pathlib import Path

import numpy as np
import pytest

from lfiw.paper.chain import stationary_distribution
from lfiw.paper.theorem import (
    TOLERANCE,
    Mdp,
    TheoremConfig,
    TheoremResult,
    contraction_factor,
    counter_example,
    discounted_visitation,
    jensen_bound,
    make_random_mdp,
    pair_factor,
    run_theorem,
    save_theorem,
)

COIN = np.full((2, 2), 0.5)  # the next pair is drawn by a fair coin
SWAP = np.array([[0.0, 1.0], [1.0, 0.0]])  # the two pairs alternate


@pytest.fixture(scope="module")
def measured() -> TheoremResult:
    return run_theorem(TheoremConfig())


def test_contraction_factor_by_hand() -> None:
    # sqrt(D) P / sqrt(D) has rank one, with the norm sqrt(1 / d_1 + 1 / d_2) / 2.
    assert contraction_factor(COIN, 0.9, np.array([0.5, 0.5])) == pytest.approx(0.9)
    assert contraction_factor(COIN, 0.9, np.array([0.2, 0.8])) == pytest.approx(0.9 * 1.25)


def test_discounted_visitation_by_hand_attains_its_bound() -> None:
    # 1/2 (1 + 1/4 + 1/16 + ...) = 2/3 on the first pair.
    mdp = Mdp(SWAP, reward=np.zeros(2), start=np.array([1.0, 0.0]))
    d = discounted_visitation(mdp, 0.5)
    np.testing.assert_allclose(d, [2 / 3, 1 / 3])
    assert contraction_factor(SWAP, 0.5, d) == pytest.approx(0.5**0.5)


def test_discounted_visitation_tends_to_the_stationary_distribution() -> None:
    mdp = make_random_mdp(TheoremConfig(), np.random.default_rng(0))
    stationary = stationary_distribution(mdp.transition)
    np.testing.assert_allclose(discounted_visitation(mdp, 1 - 1e-7), stationary, atol=1e-4)


def test_pair_factor_by_hand() -> None:
    mdp = Mdp(SWAP, reward=np.array([5.0, -7.0]), start=np.array([1.0, 0.0]))
    q, other_q = np.array([[3.0, 1.0], [2.0, 4.0]]), np.array([[1.0, 1.0], [2.0, 1.0]])
    # The difference moves to the other pair: (2, 0) -> 0.9 (0, 2) and (0, 3) -> 0.9 (3, 0).
    factors = pair_factor(mdp, 0.9, np.array([0.2, 0.8]), q, other_q)
    np.testing.assert_allclose(factors, [0.9 * 2, 0.9 / 2])


@pytest.mark.parametrize(
    ("d", "expected_q"),
    [
        ([0.4, 0.6], [1.25, 1]),  # d' - d = 0.1 where d holds 0.4
        ([0.2, 0.8], [2, 1]),  # d' - d = 0.3 where d holds 0.2: nu stops at 1
        ([0.0, 1.0], [2, 1]),  # no mass of d at all
    ],
)
def test_counter_example_by_hand(d: list[float], expected_q: list[float]) -> None:
    np.testing.assert_allclose(counter_example(COIN, np.array(d)), expected_q)


def test_factor_of_the_counter_example_by_hand() -> None:
    # h = 1.5^2 and g = 0.2 * 4 + 0.8 * 1.
    mdp = Mdp(COIN, reward=np.ones(2), start=np.array([1.0, 0.0]))
    factor = pair_factor(mdp, 0.9, np.array([0.2, 0.8]), np.array([2.0, 1.0]), np.zeros(2))
    assert float(factor) == pytest.approx(0.9 * (2.25 / 1.6) ** 0.5)


def test_a_stationary_distribution_has_no_counter_example() -> None:
    mdp = make_random_mdp(TheoremConfig(), np.random.default_rng(0))
    with pytest.raises(ValueError, match="not stationary"):
        counter_example(mdp.transition, stationary_distribution(mdp.transition))


def test_jensen_bound_by_hand() -> None:
    # d P = (0.5, 0.5) for the coin: the largest ratio is 0.5 / 0.2.
    assert jensen_bound(COIN, 0.9, np.array([0.2, 0.8])) == pytest.approx(0.9 * 2.5**0.5)
    assert jensen_bound(COIN, 0.9, np.array([0.5, 0.5])) == pytest.approx(0.9)  # stationary
    # Every pair leads to the first. The uniform distribution's bound has the column sum 2; half of
    # it mixed with the stationary (1, 0) makes (3/4, 1/4), whose image (1, 0) is 4/3 of it.
    leads = np.array([[1.0, 0.0], [1.0, 0.0]])
    assert jensen_bound(leads, 0.9, np.array([0.5, 0.5])) == pytest.approx(0.9 * 2**0.5)
    assert jensen_bound(leads, 0.9, np.array([0.75, 0.25])) == pytest.approx(0.9 * (4 / 3) ** 0.5)


def test_no_factor_exceeds_its_bound(measured: TheoremResult) -> None:
    for name, factors in measured.exact.items():
        assert np.all(np.array(factors) <= np.array(measured.bounds[name]) + TOLERANCE)
    np.testing.assert_allclose(measured.bounds["stationary"], 0.9)
    assert max(measured.bounds["discounted"]) <= 0.9**0.5 + TOLERANCE


def test_a_floor_lies_between_stationary_and_uniform_weights(measured: TheoremResult) -> None:
    bounds = measured.bounds
    for floored, uniform in zip(bounds["stationary_floor"], bounds["uniform"], strict=True):
        assert 0.9 - TOLERANCE <= floored <= uniform + TOLERANCE


def test_random_mdps_are_mdps_with_one_policy() -> None:
    config = TheoremConfig(num_states=3, num_actions=4)
    mdp = make_random_mdp(config, np.random.default_rng(0))
    np.testing.assert_allclose(mdp.transition.sum(axis=1), 1)
    assert mdp.start.sum() == pytest.approx(1)
    next_pairs = np.vstack([mdp.transition, mdp.start]).reshape(13, 3, 4)
    policies = next_pairs / next_pairs.sum(axis=2, keepdims=True)
    np.testing.assert_allclose(policies, np.broadcast_to(policies[0], policies.shape))


def test_stationary_contracts_by_exactly_the_discount(measured: TheoremResult) -> None:
    np.testing.assert_allclose(measured.exact["stationary"], 0.9, rtol=0, atol=TOLERANCE)
    assert len(measured.exact["stationary"]) == 1000


def test_discounted_lies_between_the_discount_and_its_root(measured: TheoremResult) -> None:
    factors = np.array(measured.exact["discounted"])
    assert (factors > 0.9).all()
    assert 0.943 < factors.max() <= 0.9**0.5 + TOLERANCE


def test_no_q_pair_exceeds_the_exact_factor(measured: TheoremResult) -> None:
    for found in (measured.random_q, measured.counter_examples):
        for name, factors in found.items():
            exact = np.array(measured.exact[name])
            if len(factors) < len(exact):  # where the floor does not bind, d is stationary
                exact = exact[exact > 0.9 + TOLERANCE]
            assert (np.array(factors) <= exact + TOLERANCE).all()


def test_every_other_distribution_has_its_counter_example(measured: TheoremResult) -> None:
    assert set(measured.counter_examples) == measured.exact.keys() - {"stationary"}
    for factors in measured.counter_examples.values():
        assert min(factors) > 0.9 + TOLERANCE


@pytest.mark.parametrize("discount", [0.5, 0.99])
def test_other_sizes_and_discounts_agree(discount: float) -> None:
    config = TheoremConfig(num_mdps=20, num_states=7, num_actions=3, discount=discount)
    result = run_theorem(config)
    np.testing.assert_allclose(result.exact["stationary"], discount, rtol=0, atol=TOLERANCE)
    assert max(result.exact["discounted"]) <= discount**0.5 + TOLERANCE
    assert min(map(min, result.counter_examples.values())) > discount


def test_saved_file(measured: TheoremResult, tmp_path: Path) -> None:
    json_path, png_path = save_theorem(measured, tmp_path / "new")
    assert png_path.read_bytes().startswith(b"\x89PNG")
    saved = json.loads(json_path.read_text())
    assert (tmp_path / "new" / "theorem.json").exists()
    assert saved["settings"]["discount"] == 0.9
    assert saved["largest_factor"]["stationary"] == pytest.approx(0.9)
    assert saved["largest_factor"]["discounted"] == max(measured.exact["discounted"])
    assert saved["smallest_factor_of_counter_example"]["uniform"] > 0.9
    assert saved["bound"]["discounted"] == pytest.approx(0.9**0.5)
    above = saved["num_mdps_above_discount"]
    assert 0 < above.pop("stationary_floor") < 1000  # the floor does not bind in all
    assert above == {"stationary": 0, "discounted": 1000, "uniform": 1000, "random": 1000}
    assert saved["num_mdps_that_contract"]["stationary_floor"] > 0
    assert max(saved["largest_share_of_jensen_bound"].values()) <= 1 + TOLERANCE


def test_settings_outside_their_range_are_named() -> None:
    with pytest.raises(ValueError, match=r"discount is 1\.0"):
        TheoremConfig(discount=1.0)
