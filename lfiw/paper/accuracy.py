"""How well the ratio network tells a policy's own experience from that of earlier ones.

Positives are state-action pairs of the final policy, negatives come in equal parts from the
policies at 20, 40, 60 and 80 % of training, as many in all. A pair is called positive where
w > 1. The paper names neither threshold nor class balance, nor whether its network was the trained
one, so the one that training left behind is reported and one fitted to such pairs afterwards.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from lfiw.acting.rollout import EnvRunner
from lfiw.errors import InputError
from lfiw.learning.config import TrainConfig
from lfiw.paper.cells import Study
from lfiw.ratio import RatioConfig, RatioState, make_ratio
from lfiw.runs.files import write_json
from lfiw.runs.layout import SNAPSHOT_PERCENTS
from lfiw.runs.read import live_seeds
from lfiw.runs.snapshots import load_snapshot
from lfiw.training.folder import Training
from lfiw.types import row_columns

PAPER = {"precision": 0.873, "accuracy": 0.731}  # section 5.2, Humanoid-v2, SAC
NUM_PAIRS = {"smoke": 1000, "small": 10_000, "paper": 20_000}  # of each class
REFIT_UPDATES = {"smoke": 200, "small": 2000, "paper": 10_000}
FITTED_ON, TESTED_ON = 10_001, 10_002  # added to a run's seed: episodes that training never saw

Pairs = tuple[np.ndarray, np.ndarray]  # positives and negatives, each [n, D + A]


def classifier_quality(positive_logits: np.ndarray, negative_logits: np.ndarray) -> dict[str, Any]:
    """Precision and accuracy of `logit > 0`, which is w > 1."""
    true_positives = int((positive_logits > 0).sum())
    false_positives = int((negative_logits > 0).sum())
    called = true_positives + false_positives
    right = true_positives + len(negative_logits) - false_positives
    return {
        "precision": true_positives / called if called else None,
        "accuracy": right / (len(positive_logits) + len(negative_logits)),
    }


def policy_pairs(
    training: Training, percent: int, seed: int, env_seed: int, count: int
) -> np.ndarray:
    """`count` pairs [n, D + A] that the exploring policy of a snapshot meets, as the ratio network
    at the end of training sees them."""
    policy = load_snapshot(training.folder, percent, seed).policy()
    last = load_snapshot(training.folder, SNAPSHOT_PERCENTS[-1], seed)
    runner = EnvRunner(training.config.env, env_seed)
    try:
        rows = runner.collect(policy, count).rows
    finally:
        runner.env.close()
    columns = row_columns(runner.spec)
    return last.pairs(rows[:, columns.obs], rows[:, columns.action])


def collect_pairs(training: Training, seed: int, env_seed: int, count: int) -> Pairs:
    *earlier, final = SNAPSHOT_PERCENTS
    positives = policy_pairs(training, final, seed, env_seed, count)
    negatives = [policy_pairs(training, p, seed, env_seed, count // len(earlier)) for p in earlier]
    return positives, np.concatenate(negatives)


def refitted_logits(config: TrainConfig, fitted_on: Pairs, tested_on: Pairs, updates: int) -> Pairs:
    """Logits of a fresh network, fitted to one set of pairs, on another."""
    positives, negatives = map(jnp.asarray, fitted_on)
    ratio = make_ratio(config.replay, positives.shape[1], config.agent.learning_rate)
    key_init, key_draws = jax.random.split(jax.random.key(0))

    def step(state: RatioState, key: Array) -> tuple[RatioState, None]:
        key_slow, key_fast = jax.random.split(key)
        slow = jax.random.choice(key_slow, negatives, (config.batch_size,))
        fast = jax.random.choice(key_fast, positives, (config.batch_size,))
        return ratio.update(state, slow, fast)[0], None

    keys = jax.random.split(key_draws, updates)
    state, _ = jax.jit(lambda state: jax.lax.scan(step, state, keys))(ratio.init(key_init))
    on_positives, on_negatives = (
        np.asarray(ratio.logits(state, jnp.asarray(part))) for part in tested_on
    )
    return on_positives, on_negatives


def ratio_accuracy(
    training: Training, seed: int, num_pairs: int, refit_updates: int
) -> dict[str, Any]:
    """Of one seed of a method folder with LFIW."""
    fitted_on = collect_pairs(training, seed, seed + FITTED_ON, num_pairs)
    tested_on = collect_pairs(training, seed, seed + TESTED_ON, num_pairs)
    ratio = load_snapshot(training.folder, SNAPSHOT_PERCENTS[-1], seed).network("ratio")
    trained = [ratio(part)[:, 0] for part in tested_on]
    refitted = refitted_logits(training.config, fitted_on, tested_on, refit_updates)
    return {
        "env": training.config.env.id,
        "method": training.folder.name,
        "seed": seed,
        "pairs": [len(part) for part in tested_on],
        "trained": classifier_quality(*trained),
        "refitted": classifier_quality(*refitted),
    }


def mean_of(rows: list[dict[str, Any]], network: str) -> dict[str, Any]:
    def mean(name: str) -> float | None:
        values = [row[network][name] for row in rows if row[network][name] is not None]
        return float(np.mean(values)) if values else None

    return {name: mean(name) for name in PAPER}


def analyse_accuracy(study: Study) -> list[Path]:
    pairs, updates = NUM_PAIRS[study.scale], REFIT_UPDATES[study.scale]
    rows = [
        ratio_accuracy(training, seed, pairs, updates)
        for training in study.trainings
        if isinstance(training.config.replay, RatioConfig)
        for seed in live_seeds(training.folder)
    ]
    if not rows:
        raise InputError("None of the runs has a ratio network: name one with LFIW.")
    path = study.out / f"{study.name}.json"
    content = {
        "positives": "pairs of the final policy",
        "negatives": f"equal parts from the policies at {SNAPSHOT_PERCENTS[:-1]} % of training",
        "threshold": "w > 1",
        "paper": PAPER,
        "trained": mean_of(rows, "trained"),
        "refitted": mean_of(rows, "refitted"),
        "runs": rows,
    }
    write_json(path, content)
    return [path]
