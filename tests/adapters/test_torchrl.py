"""TorchRL's replay buffer and losses with LFIW, against the library itself."""

import io
import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pendulum
import pytest

pytest.importorskip("torchrl", reason="TorchRL is not installed; `make test-adapters` brings it.")

import torch
from tensordict import TensorDict
from tensordict.nn import (
    NormalParamExtractor,
    TensorDictModule,
    TensorDictSequential,
)
from torch import nn
from torchrl import objectives
from torchrl.collectors import Collector
from torchrl.data import (
    Bounded,
    LazyTensorStorage,
    TensorDictReplayBuffer,
)
from torchrl.envs import GymEnv, StepCounter, TransformedEnv
from torchrl.modules import (
    AdditiveGaussianModule,
    ProbabilisticActor,
    TanhModule,
    TanhNormal,
    ValueOperator,
)

from lfiw import LfiwConfig
from lfiw.adapters import torchrl as adapted
from lfiw.adapters.torch import Lfiw
from lfiw.errors import InputError, RunError

SHARP = LfiwConfig(
    fast_size=20,
    warmup_env_steps=0,
    hidden_sizes=(16,),
    temperature=0.5,
    transform="power",
    learning_rate=0.05,
)
FLAT = replace(SHARP, temperature=1e30)
ACTIONS = Bounded(-2, 2, (1,))


def mlp(inputs: int, outputs: int, width: int = 16) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, width),
        nn.ReLU(),
        nn.Linear(width, width),
        nn.ReLU(),
        nn.Linear(width, outputs),
    )


def make_loss(kind: Any, width: int = 16, seed: int = 0) -> Any:
    """A loss of the library or of ours, with the networks that it needs."""
    torch.manual_seed(seed)
    qvalue = ValueOperator(
        _Concatenate(mlp(4, 1, width)), in_keys=["observation", "action"], out_keys=None
    )
    if issubclass(kind, objectives.SACLoss):
        body = nn.Sequential(mlp(3, 2, width), NormalParamExtractor())
        actor = ProbabilisticActor(
            TensorDictModule(body, in_keys=["observation"], out_keys=["loc", "scale"]),
            in_keys=["loc", "scale"],
            distribution_class=TanhNormal,
            distribution_kwargs={"low": -2.0, "high": 2.0},
            return_log_prob=False,
        )
        loss = kind(actor, qvalue, num_qvalue_nets=2, target_entropy=-1.0)
    else:
        actor = TensorDictSequential(
            TensorDictModule(mlp(3, 1, width), in_keys=["observation"], out_keys=["param"]),
            TanhModule(in_keys=["param"], out_keys=["action"], spec=ACTIONS),
        )
        loss = kind(actor, qvalue, action_spec=ACTIONS)
    loss.make_value_estimator(gamma=0.95)
    return loss


class _Concatenate(nn.Module):
    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, observation: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
        return self.body(torch.cat([observation, action], -1))


def transitions(count: int, seed: int = 0) -> TensorDict:
    draw = torch.Generator().manual_seed(seed)

    def normal(size: int) -> torch.Tensor:
        return torch.randn(count, size, generator=draw)

    ended = torch.rand(count, 1, generator=draw) < 0.2
    following = {"observation": normal(3), "reward": normal(1), "done": ended, "terminated": ended}
    return TensorDict(
        {"observation": normal(3), "action": normal(1).clamp(-2, 2), "next": following}, [count]
    )


def make_buffer(config: LfiwConfig | None, **settings: Any) -> TensorDictReplayBuffer:
    transform = adapted.LfiwWeights(config, **settings) if config else None
    return TensorDictReplayBuffer(
        storage=LazyTensorStorage(20_000),
        batch_size=32,
        transform=transform,
        generator=torch.Generator().manual_seed(3),
    )


LOSSES = [
    (adapted.SACLoss, objectives.SACLoss),
    (adapted.TD3Loss, objectives.TD3Loss),
]


@pytest.mark.parametrize(("ours", "plain"), LOSSES)
def test_weights_reach_the_critic_alone(ours: type, plain: type) -> None:
    """Critic: the weighted mean of the library's own terms, in value and gradient. Actor and
    entropy: the library's own numbers to the bit."""
    batch = transitions(32)
    weights = torch.rand(32) + 0.1
    weights /= weights.mean()

    def losses(kind: type, **given: torch.Tensor) -> Any:
        loss = make_loss(kind)
        torch.manual_seed(1)
        return loss, loss(batch.clone().update(given))

    own, found = losses(ours, priority_weight=weights)
    _, without = losses(plain)
    for name in {"loss_actor", "loss_alpha"} & set(without.keys()):
        assert torch.equal(found[name], without[name])
    assert not torch.equal(found["loss_qvalue"], without["loss_qvalue"])

    terms = make_loss(plain)
    terms.reduction = "none"
    torch.manual_seed(1)
    if plain is objectives.TD3Loss:
        terms.actor_loss(batch.clone())
        explicit = terms.value_loss(batch.clone())[0]
    else:
        explicit = terms.qvalue_v2_loss(batch.clone())[0]
    expected = (weights * explicit).mean()
    torch.testing.assert_close(found["loss_qvalue"], expected, rtol=1e-6, atol=0)
    found["loss_qvalue"].backward()
    expected.backward()
    for one, other in zip(
        own.qvalue_network_params.values(True, True),
        terms.qvalue_network_params.values(True, True),
        strict=True,
    ):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(("ours", "plain"), LOSSES)
def test_td_errors_are_absolute(ours: type, plain: type) -> None:
    """The library has that of SAC so, and the square of TD3's."""
    given, theirs = (transitions(32).set("priority_weight", torch.ones(32)) for _ in range(2))
    for kind, batch in ((ours, given), (plain, theirs)):
        loss = make_loss(kind)
        torch.manual_seed(1)
        loss(batch)
    power = 2 if plain is objectives.TD3Loss else 1
    torch.testing.assert_close(given["td_error"] ** power, theirs["td_error"])


@pytest.mark.parametrize(("ours", "plain"), LOSSES)
def test_priorities_follow_the_td_errors(ours: type, plain: type) -> None:
    buffer = TensorDictReplayBuffer(
        storage=LazyTensorStorage(100), sampler=adapted.ReplaySampler("lap"), batch_size=32
    )
    buffer.extend(transitions(64))
    batch = buffer.sample()
    make_loss(ours)(batch)
    buffer.update_priority(batch["index"], batch["td_error"])
    leaves = buffer.sampler.draws.strategy.tree.leaves
    for slot in batch["index"].unique():
        largest = batch["td_error"][batch["index"] == slot].max().item()  # of those drawn twice
        assert leaves[slot].item() == pytest.approx(max(largest, 1) ** 0.4)
    assert leaves.max() > 1


def train(loss: Any, buffer: TensorDictReplayBuffer, updates: int) -> None:
    optimiser = torch.optim.Adam(loss.parameters(), 1e-3)
    torch.manual_seed(2)
    for _ in range(updates):
        values = loss(buffer.sample())
        optimiser.zero_grad()
        sum(value for name, value in values.items() if name.startswith("loss_")).backward()
        optimiser.step()


@pytest.mark.parametrize(("ours", "plain"), LOSSES)
def test_equal_weights_give_the_plain_run_to_the_bit(ours: type, plain: type) -> None:
    results = []
    for kind, config in ((ours, FLAT), (plain, None), (ours, SHARP)):
        buffer, loss = make_buffer(config), make_loss(kind)
        buffer.extend(transitions(64))
        train(loss, buffer, 20)
        results.append([value.detach() for value in loss.parameters()])
    flat, reference, sharp = results
    assert all(torch.equal(one, other) for one, other in zip(flat, reference, strict=True))
    assert not all(torch.equal(one, other) for one, other in zip(sharp, reference, strict=True))


def test_transform_is_the_estimator() -> None:
    """One transition, several, and axes for environments and time; stored and weighed as such."""
    buffer, alone = make_buffer(SHARP), Lfiw(3, 1, SHARP, buffer_size=20_000)
    data = transitions(60)
    buffer.add(data[0])
    buffer.extend(data[1:])
    alone.observe(data["observation"], data["action"])
    lfiw = buffer.transform[0].lfiw
    assert lfiw.env_steps == 60 and torch.equal(lfiw.fast, alone.fast)
    for _ in range(3):
        batch = buffer.sample()
        expected = alone.weights(batch["observation"], batch["action"])
        assert torch.equal(batch["priority_weight"], expected)
    transform = adapted.LfiwWeights(SHARP, buffer_size=100)
    transform.inv(data.reshape(4, 15))
    assert transform.forward(data.reshape(4, 15))["priority_weight"].shape == (4, 15)


def test_buffer_that_prefetches() -> None:
    """Its threads share one estimator, which takes one step for each batch."""
    buffer = TensorDictReplayBuffer(
        storage=LazyTensorStorage(100),
        batch_size=32,
        prefetch=3,
        transform=adapted.LfiwWeights(SHARP),
    )
    for seed in range(10):
        buffer.extend(transitions(10, seed))
        for _ in range(5):
            weights = buffer.sample()["priority_weight"]
            assert weights.mean().item() == pytest.approx(1, abs=1e-5)
    with adapted.LOCK:  # its threads go on: between two of their steps
        states = buffer.transform[0].lfiw.ratio.optimiser.state_dict()["state"].values()
        (steps,) = {int(state["step"]) for state in states}
    assert 50 <= steps <= 53


def small_buffer(config: LfiwConfig, size: int, **options: Any) -> TensorDictReplayBuffer:
    transform = adapted.LfiwWeights(config, **options)
    return TensorDictReplayBuffer(
        storage=LazyTensorStorage(size), batch_size=32, transform=transform
    )


def test_the_storage_tells_its_size() -> None:
    buffer = small_buffer(replace(SHARP, fast_size=500), 400)
    with pytest.raises(InputError, match=r"fast_size 500 must be below .* 400"):
        buffer.extend(transitions(10))
    late = TensorDictReplayBuffer(storage=LazyTensorStorage(400), batch_size=32)
    late.append_transform(adapted.LfiwWeights(SHARP))
    late.add(transitions(1)[0])
    assert late.transform[0].lfiw.buffer_size == 400
    told = small_buffer(SHARP, 40, buffer_size=40 * 15)  # of 15 transitions each
    told.extend(transitions(60).reshape(4, 15))
    assert told.transform[0].lfiw.buffer_size == 600


@pytest.mark.parametrize("prefetch", [None, 2])
def test_the_clip_follows_what_the_storage_holds(
    prefetch: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """90 were added, 50 fit; later 30 after the storage was emptied."""
    sizes: list[int] = []
    weigh = Lfiw.weigh

    def noted(lfiw: Lfiw, slow: Any, fast: Any, slow_size: int) -> Any:
        sizes.append(slow_size)
        return weigh(lfiw, slow, fast, slow_size)

    monkeypatch.setattr(Lfiw, "weigh", noted)
    buffer = TensorDictReplayBuffer(
        storage=LazyTensorStorage(50),
        batch_size=32,
        transform=adapted.LfiwWeights(SHARP),
        prefetch=prefetch,
    )
    buffer.extend(transitions(45))
    buffer.extend(transitions(45, seed=1))
    buffer.sample()
    assert set(sizes) == {50}
    if prefetch is None:
        buffer.empty()
        buffer.extend(transitions(30))
        buffer.sample()
        assert sizes == [50, 30]


def test_state_carries_the_size() -> None:
    """Into a transform that has seen nothing yet, with its buffer and without."""
    one = small_buffer(SHARP, 400)
    one.extend(transitions(60))
    other, alone = small_buffer(SHARP, 300), adapted.LfiwWeights(SHARP)
    other.load_state_dict(small_buffer_state(one, other))
    alone.load_state_dict(one.transform[0].state_dict())
    assert alone.lfiw.buffer_size == 400
    assert other.transform[0].lfiw.buffer_size == 300


def small_buffer_state(one: Any, other: Any) -> dict[str, Any]:
    """The transforms' state of one buffer within another's own."""
    other.extend(transitions(20))
    return other.state_dict() | {"_transforms": one.state_dict()["_transforms"]}


def test_state_goes_on_exactly() -> None:
    one, two = make_buffer(SHARP), make_buffer(SHARP, seed=9)
    one.extend(transitions(60))
    one.sample()
    file = io.BytesIO()
    torch.save(one.transform.state_dict(), file)
    file.seek(0)
    two.extend(transitions(60))
    two.transform.load_state_dict(torch.load(file, weights_only=True))
    batch = transitions(32, seed=5)
    found = [buffer.transform(batch.clone())["priority_weight"] for buffer in (one, two)]
    assert torch.equal(*found)


def test_bad_use_gets_a_sentence() -> None:
    with pytest.raises(RunError, match="transform=LfiwWeights"):
        make_loss(adapted.SACLoss)(transitions(8))
    with pytest.raises(InputError, match="no transition"):
        adapted.LfiwWeights(SHARP).forward(transitions(8))
    with pytest.raises(InputError, match="continuous actions"):
        data = transitions(8)
        adapted.LfiwWeights(SHARP).inv(data.set("action", data["action"].long()))
    with pytest.raises(InputError, match=r"does not see the storage .* buffer_size="):
        adapted.LfiwWeights(SHARP).inv(transitions(8))
    prioritised = transitions(8).set("priority_weight", torch.ones(8))
    with pytest.raises(InputError, match="priority weights of its own"):
        make_buffer(SHARP).transform(prioritised)


@pytest.mark.parametrize(
    "kind", [adapted.SACLoss, pytest.param(adapted.TD3Loss, marks=pytest.mark.faults)]
)
def test_solves_pendulum(kind: type) -> None:
    """The loop of the library's own examples: collector, buffer, loss, soft update."""
    torch.set_num_threads(1)
    loss = make_loss(kind, width=64)
    env = TransformedEnv(GymEnv(pendulum.NAME), StepCounter(200))
    env.set_seed(0)
    actor = loss.actor_network
    acting = actor
    if kind is adapted.TD3Loss:
        noise = AdditiveGaussianModule(ACTIONS, sigma_init=0.4, sigma_end=0.4)
        acting = TensorDictSequential(actor, noise)
    collector = Collector(env, acting, frames_per_batch=50, total_frames=-1, init_random_frames=300)
    buffer = make_buffer(pendulum.LFIW)
    optimiser = torch.optim.Adam(loss.parameters(), 3e-3)
    target = objectives.SoftUpdate(loss, tau=0.005)
    batches = iter(collector)

    def learn(steps: int) -> None:
        for frames in itertools.islice(batches, steps // 50):
            buffer.extend(frames.reshape(-1))
            for update in range(50 if len(buffer) > 300 else 0):
                values = loss(buffer.sample())
                delayed = kind is adapted.TD3Loss and update % 2
                total = values["loss_qvalue"] + (0 if delayed else values["loss_actor"])
                optimiser.zero_grad()
                (total + values.get("loss_alpha", torch.tensor(0.0))).backward()
                optimiser.step()
                target.step()

    def act(obs: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            state = TensorDict({"observation": torch.tensor(obs)}, [])
            if kind is adapted.SACLoss:
                return actor.get_dist(state).deterministic_sample.numpy()
            return actor(state)["action"].numpy()

    assert pendulum.is_solved(learn, act)
    assert buffer.transform[0].lfiw.metrics()["max_weight"] > 1.01
