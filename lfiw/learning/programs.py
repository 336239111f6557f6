"""What is compiled, once for all methods of a command that can share it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import Any, TypeVar

import jax

from lfiw.learning.config import TrainConfig
from lfiw.learning.learner import Learner, learn_together
from lfiw.learning.scalars import program_key

Made = TypeVar("Made")


class Program:
    """A compiled function. Whoever needs it first on a device compiles it; others wait."""

    def __init__(self, function: Callable[..., Any], **options: Any) -> None:
        self.jitted = jax.jit(function, **options)
        self._compiling = threading.Lock()
        self._ready: set[jax.Device] = set()

    def __call__(self, device: jax.Device, *arguments: Any) -> Any:
        if device not in self._ready:
            with self._compiling:
                if device not in self._ready:
                    result = self.jitted(*arguments)
                    self._ready.add(device)
                    return result
        return self.jitted(*arguments)


class Programs:
    """Learners that differ in traced settings alone are one object, and so are their programs."""

    def __init__(self) -> None:
        self._made: dict[Hashable, Any] = {}
        self._making = threading.RLock()

    def learner(self, config: TrainConfig, batched: bool, make: Callable[[], Learner]) -> Learner:
        return self._once((repr(program_key(config)), batched), make)

    def init(self, learner: Learner, options: Mapping[str, Any]) -> Program:
        return self._program(learner.init, learner.init, options)

    def add(self, learner: Learner, options: Mapping[str, Any]) -> Program:
        return self._program(learner.add, learner.add, options, donate_argnums=0)

    def learn(self, learners: tuple[Learner, ...], options: Mapping[str, Any]) -> Program:
        """One call for all the learners of a device."""
        function = partial(learn_together, learners)
        return self._program(learners, function, options, donate_argnums=0)

    def _program(
        self, of: Hashable, function: Callable[..., Any], options: Mapping[str, Any], **how: Any
    ) -> Program:
        make = partial(Program, function, compiler_options=dict(options), **how)
        return self._once((of, tuple(sorted(options.items()))), make)

    def _once(self, key: Hashable, make: Callable[[], Made]) -> Made:
        with self._making:
            if key not in self._made:
                self._made[key] = make()
            made: Made = self._made[key]
            return made
