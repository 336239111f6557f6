"""Ray: a cluster to join, the share of it that a method takes, and the task that trains it.
Nothing here imports ray or jax before it is needed."""

from __future__ import annotations

import os
import secrets
import socket
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from lfiw.errors import InputError
from lfiw.extras import install_command
from lfiw.machine import usable_cores
from lfiw.runs.lock import LOCK, locked
from lfiw.runs.trust import signed
from lfiw.wording import size_text

LOCAL = "local"
OBJECT_STORE_BYTES = 100 * 2**20  # nothing but small settings passes through it
ANSWER_SECONDS = 10.0
GPU_SHARE = 0.5  # two methods on a GPU: one learns while the other collects
GPU_MEMORY_SHARE = 0.9  # of a method's part of a GPU; the rest is for the driver's own
# A dying process holds its method folder until the system, or a file server's lease, frees it.
LOCK_PATIENCE_SECONDS = 120.0

Node = Mapping[str, float]  # what a node has in all: CPU, GPU, memory


@dataclass(frozen=True)
class ClusterConfig:
    """Which cluster, and what each method takes of it; None: what the method needs."""

    address: str = LOCAL
    gpus_per_group: float | None = None
    cpus_per_group: int | None = None

    def __post_init__(self) -> None:
        gpus, cpus = self.gpus_per_group, self.cpus_per_group
        if gpus is not None and not (0 <= gpus <= 1 or (gpus > 1 and gpus == int(gpus))):
            raise InputError(
                f"--gpus-per-group must be 0, a part of one or a whole number, not {gpus:g}."
            )
        if cpus is not None and cpus < 1:
            raise InputError(f"--cpus-per-group must be at least 1, not {cpus}.")


def cluster_config(
    ray: str | None, gpus_per_group: float | None, cpus_per_group: int | None, devices: str | None
) -> ClusterConfig | None:
    """The options of a command; None: train on this machine, without Ray."""
    if ray is not None and devices is not None:
        raise InputError("With --ray, --gpus-per-group takes the place of --devices (0: CPUs).")
    if ray is not None:
        return ClusterConfig(ray, gpus_per_group, cpus_per_group)
    if gpus_per_group is not None or cpus_per_group is not None:
        raise InputError("--gpus-per-group and --cpus-per-group need --ray.")
    return None


class Share(NamedTuple):
    """What a task takes of one node."""

    cpus: int
    gpus: float
    memory: int

    def fits(self, node: Node) -> bool:
        wanted = {"CPU": self.cpus, "GPU": self.gpus, "memory": self.memory}
        return all(node.get(name, 0) >= amount for name, amount in wanted.items())

    def __str__(self) -> str:
        return f"{self.cpus} CPUs, {self.gpus:g} GPUs and {size_text(self.memory)} of memory"


def share_of(num_seeds: int, needed: int, nodes: Sequence[Node], config: ClusterConfig) -> Share:
    """A CPU for each seed as far as a node has them, and beside a GPU not more than the method's
    part of it, so that the GPUs are never idle for want of CPUs. `needed`: bytes of all runs."""
    gpus = config.gpus_per_group
    if gpus is None:
        gpus = GPU_SHARE if any(node.get("GPU") for node in nodes) else 0
    cpus = config.cpus_per_group
    if cpus is None:
        parts = [
            node.get("CPU", 0) * (gpus / node["GPU"] if gpus else 1)
            for node in nodes
            if node.get("GPU", 0) >= gpus
        ]
        cpus = max(1, min(num_seeds, int(max(parts, default=1))))
    # What is on a GPU is not in the node's own memory; the task compares it with the device's.
    return Share(cpus, gpus, 0 if gpus else needed)


def refuse_impossible(name: str, share: Share, nodes: Sequence[Node]) -> None:
    """Instead of waiting for ever for a node that does not exist."""
    if any(share.fits(node) for node in nodes):
        return
    shapes = dict.fromkeys(
        str(Share(int(node.get("CPU", 0)), node.get("GPU", 0), int(node.get("memory", 0))))
        for node in nodes
    )
    raise InputError(
        f"{name} can never run on this cluster: it takes {share} of one node, and the nodes have "
        f"{'; '.join(shapes)} (see --cpus-per-group and --gpus-per-group)."
    )


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """The module `ray`, joined to a cluster, or to one that is started here and ends with us."""
    if address == LOCAL:
        keep_to_this_machine()
    try:
        import ray
    except ImportError:
        raise InputError(f"--ray needs Ray: {install_command('ray')}") from None
    refuse_silence(address)
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if address == LOCAL:
        options |= {
            "num_cpus": usable_cores(),
            "include_dashboard": False,
            "object_store_memory": OBJECT_STORE_BYTES,
        }
    try:
        with warnings.catch_warnings():  # of jax, about forks: Ray's execute a program at once
            warnings.simplefilter("ignore", RuntimeWarning)
            ray.init(address=address, **options)
    except (ConnectionError, ImportError, RuntimeError, ValueError) as error:
        raise InputError(f"No Ray cluster at {address}: {first_line(error)}") from None
    try:
        yield ray
    finally:
        ray.shutdown()


def keep_to_this_machine() -> None:
    """Ray, once it is imported, and the processes that it starts listen on the loopback alone, and
    only to who knows a token of this command."""
    # Where this is not set, Ray listens on all interfaces, even if it is asked for 127.0.0.1.
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    os.environ["RAY_AUTH_MODE"] = "token"
    os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)


def refuse_silence(address: str) -> None:
    """Ray itself tries an address that nobody answers at for many minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon:
        return
    try:
        socket.create_connection((host, int(port)), timeout=ANSWER_SECONDS).close()
    except (OSError, ValueError) as error:
        raise InputError(f"No Ray cluster answers at {address}: {error}.") from None


def living_nodes(ray: Any) -> list[Node]:
    return [node["Resources"] for node in ray.nodes() if node["Alive"]]


def submit(
    ray: Any, folder: Path, config: dict[str, Any], share: Share, workers: int | None
) -> Any:
    """Ask the cluster to train a method; the answer is a reference to the task's end."""
    task = ray.remote(
        num_cpus=share.cpus,
        num_gpus=share.gpus,
        memory=share.memory,
        max_calls=1,  # a process of its own, with a jax of its own
        max_retries=0,  # who submits decides, and sees whether the method gets further
    )(train_method)
    # Signed here, where it was typed: nodes have keys of their own.
    return task.remote(str(folder), config, share, workers, sys.argv, signed(config["env"]))


def train_method(
    folder: str,
    config: dict[str, Any],
    share: Share,
    workers: int | None,
    command: Sequence[str],
    signature: Mapping[str, str],
) -> None:
    """The task: begin a method folder or go on with it, on this node, within the share."""
    sys.argv = list(command)  # which a method folder records
    os.environ.update(process_settings(share))
    from rich.console import Console

    from lfiw.learning.config import config_from_json
    from lfiw.runs.read import is_begun
    from lfiw.training.jobs import Job
    from lfiw.training.resume import resume_all
    from lfiw.training.start import run_jobs

    cpus = min(share.cpus, usable_cores())
    workers = cpus if workers is None else workers
    devices = "gpu" if share.gpus else f"cpu:{cpus}"
    place = Path(folder)
    wait_until_free(place)
    typed = config_from_json(config)
    if is_begun(place):
        resume_all([place], trust_env=typed.env, workers=workers, devices=devices)
    else:
        job = Job(typed, place, signature=signature)
        run_jobs([job], workers, devices, Console(stderr=True))


def process_settings(share: Share) -> dict[str, str]:
    """What jax must find in the environment when it is imported."""
    if not share.gpus:
        return {"JAX_PLATFORMS": "cpu"}
    if share.gpus < 1:
        return {"XLA_PYTHON_CLIENT_MEM_FRACTION": f"{GPU_MEMORY_SHARE * share.gpus:.3f}"}
    return {}


def lock_time(folder: Path) -> int:
    """Changes when a task takes up the method folder: so it is known to have started."""
    try:
        return (folder / LOCK).stat().st_mtime_ns
    except OSError:
        return 0


def wait_until_free(folder: Path) -> None:
    """For the end of a former writer: of a task whose node or driver was given up."""
    give_up = time.monotonic() + LOCK_PATIENCE_SECONDS
    while (folder / LOCK).exists():
        try:
            with locked(folder):
                (folder / LOCK).touch()
                return
        except InputError:
            if time.monotonic() > give_up:
                raise
            time.sleep(1)


def first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
