"""The numbers in the log of a run: where each of them is shown and kept."""

from __future__ import annotations

from typing import Any, NamedTuple


class Metric(NamedTuple):
    name: str
    tags: tuple[str, ...] = ()  # in TensorBoard; without one: train/NAME
    stored: bool = False  # whether stored results keep it
    size: int = 0  # of a list, each element with a column of its own; 0 is a number
    title: str = ""  # of its figure; without one, it has none
    log: bool = False  # whether the figure's scale is logarithmic
    reference: float | None = None  # a level to compare with
    limits: tuple[float, float] | None = None  # of the scale

    @property
    def columns(self) -> tuple[str, ...]:
        """Its names in a table."""
        return tuple(f"{self.name}_{index}" for index in range(self.size)) or (self.name,)


def _of_lfiw(name: str, title: str = "", **entries: Any) -> Metric:
    return Metric(name, (f"lfiw/{name}",), stored=True, title=title, **entries)


EVALUATION = (
    Metric("return_mean", ("eval/mean_reward",), stored=True),
    Metric("return_std", ("eval/std_reward",), stored=True),
    Metric("length_mean", ("eval/mean_ep_length",), stored=True),
)
# Both usual families of tags, so that existing dashboards work.
TRAINING = (
    Metric("episode_return_mean", ("rollout/ep_rew_mean", "charts/episodic_return")),
    Metric("episode_length_mean", ("rollout/ep_len_mean", "charts/episodic_length")),
    Metric("steps_per_second", ("time/fps", "charts/SPS")),
    Metric("q_mean", stored=True, title="mean Q of the batch"),
    Metric("td_error", stored=True),
    Metric("alpha", ("train/ent_coef",), stored=True),
    Metric("reward_scale"),  # what an agent that scales rewards divides them by
    _of_lfiw(
        "effective_sample_size",
        "effective sample size, share of the batch",
        log=True,
        reference=1.0,
    ),
    _of_lfiw("raw_effective_sample_size"),  # before a floor
    _of_lfiw("trust"),  # the share of the ratio's weights that a floor keeps
    _of_lfiw(
        "balanced_accuracy",
        "balanced accuracy of the ratio network",
        reference=0.5,
        limits=(0.4, 1.0),
    ),
    _of_lfiw("classifier_loss"),
    _of_lfiw("max_weight"),
    _of_lfiw("weight_by_age", size=5),  # newest first
)
METRICS = {metric.name: metric for metric in (*EVALUATION, *TRAINING)}

# What stored results have beside an evaluation: numbers of the phase before it.
DIAGNOSTICS = tuple(metric for metric in TRAINING if metric.stored)
WITH_FIGURE = tuple(metric for metric in DIAGNOSTICS if metric.title)


def tags_of(name: str) -> tuple[str, ...]:
    """In TensorBoard, also of a number that is not listed here."""
    metric = METRICS.get(name)
    return metric.tags if metric and metric.tags else (f"train/{name}",)
