"""Methods that differ in traced settings alone share what is compiled."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event
from typing import Any

import jax
import numpy as np
import pytest
from programs import SPEC, active, random_rows, same_bits, train_config

from lfiw.agents.sac import SacConfig
from lfiw.learning.group import COMPILER_OPTIONS
from lfiw.learning.programs import Program, Programs
from lfiw.learning.team import Team
from lfiw.replay.lfiw import LfiwConfig

ROWS = random_rows(0, 200)[None]
DEVICE = jax.devices("cpu")[0]


@pytest.fixture(scope="module", autouse=True)
def quick_compilation() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(COMPILER_OPTIONS, "cpu", {"xla_backend_optimization_level": 0})
        yield


def trained(programs: Programs | None, temperature: float, **settings: Any) -> Team:
    replay = active(LfiwConfig, temperature=temperature, **settings)
    team = Team([train_config(active(SacConfig), replay, seeds=(3,))], SPEC, [DEVICE], programs)
    team.add([ROWS])
    team.learn(env_steps=200, updates=0)
    return team


def programs_of(team: Team) -> list[Program]:
    return [program for _, program in team._programs]


def test_methods_of_one_program_compile_it_once() -> None:
    programs = Programs()
    first, second = trained(programs, 5.0), trained(programs, 0.5)
    assert programs_of(first) == programs_of(second)
    (program,) = programs_of(first)
    assert program.jitted._cache_size() == 1
    (alone,) = trained(None, 0.5).export()[0]
    (shared,), (other,) = second.export()[0], first.export()[0]
    assert all(same_bits(alone[name], shared[name]) for name in alone)
    assert not all(np.array_equal(other[name], shared[name]) for name in alone)


def test_methods_of_other_programs_share_nothing() -> None:
    programs = Programs()
    first, second = trained(programs, 5.0), trained(programs, 5.0, transform="power")
    assert programs_of(first) != programs_of(second)
    assert first.groups[0].learner != second.groups[0].learner


def test_others_wait_while_one_compiles() -> None:
    """Eight threads at once. The first call lasts until another one comes, or for a while: all the
    others find the program ready."""
    program, together, another = Program(lambda value: value), Barrier(8), Event()
    was_ready: list[bool] = []

    def compiling(value: int) -> int:
        was_ready.append(DEVICE in program._ready)
        if len(was_ready) == 1:
            another.wait(0.5)
        another.set()
        return value

    program.jitted = compiling

    def call(number: int) -> Any:
        together.wait()
        return program(DEVICE, number)

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(call, range(8))) == list(range(8))
    assert was_ready == [False] + 7 * [True]
