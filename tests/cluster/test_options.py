"""What a group takes of a cluster, and how the options say so. No Ray is needed here."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from processes import PATIENCE
from trainings import contents, rows

from lfiw.cli import complete_ray_option
from lfiw.cluster.ray import ClusterConfig, Share, cluster_config, process_settings, share_of
from lfiw.cluster.task import LogReader
from lfiw.errors import InputError
from lfiw.runs.config_file import read_config, write_config
from lfiw.training.progress import Progress
from lfiw.training.resume import refuse_differences

CPU_NODE = {"CPU": 8.0, "memory": 16e9}
GPU_NODE = {"CPU": 32.0, "GPU": 4.0, "memory": 64e9}


@pytest.mark.parametrize(
    ("num_seeds", "nodes", "options", "expected"),
    [
        (5, [CPU_NODE], {}, Share(5, 0, 1000)),
        (20, [CPU_NODE], {}, Share(8, 0, 1000)),  # all that a node has
        (5, [CPU_NODE], {"cpus_per_group": 2}, Share(2, 0, 1000)),
        # Eight groups on the GPU node, each with an eighth of its 32 CPUs.
        (5, [CPU_NODE, GPU_NODE], {}, Share(4, 0.5, 0)),
        (3, [CPU_NODE, GPU_NODE], {}, Share(3, 0.5, 0)),
        (20, [GPU_NODE], {"gpus_per_group": 2}, Share(16, 2, 0)),
        (20, [GPU_NODE], {"gpus_per_group": 0}, Share(20, 0, 1000)),
        (5, [{}], {}, Share(1, 0, 1000)),
    ],
)
def test_share_by_hand(num_seeds: int, nodes: list, options: dict, expected: Share) -> None:
    assert share_of(num_seeds, 1000, nodes, ClusterConfig(**options)) == expected


def test_share_fits_where_one_node_has_all_of_it() -> None:
    assert Share(8, 0, 10**9).fits(CPU_NODE)
    assert not Share(9, 0, 0).fits(CPU_NODE)
    assert not Share(1, 0.5, 0).fits(CPU_NODE)
    assert not Share(1, 0, 17 * 10**9).fits(CPU_NODE)


def test_part_of_a_gpu_is_a_part_of_its_memory() -> None:
    assert process_settings(Share(1, 0.5, 0)) == {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.450"}
    assert process_settings(Share(1, 2, 0)) == {}
    assert process_settings(Share(1, 0, 0)) == {"JAX_PLATFORMS": "cpu"}


@pytest.mark.parametrize(
    ("given", "completed"),
    [
        ("", ""),
        ("train Ant-v5 --ray", "train Ant-v5 --ray local"),
        ("train --ray Ant-v5", "train --ray local Ant-v5"),
        ("train --ray module:make", "train --ray local module:make"),
        ("train Ant-v5 --ray --seeds 1", "train Ant-v5 --ray local --seeds 1"),
        ("train Ant-v5 --ray auto", "train Ant-v5 --ray auto"),
        ("train Ant-v5 --ray 10.0.0.1:6379", "train Ant-v5 --ray 10.0.0.1:6379"),
        ("train Ant-v5 --ray ray://head:10001", "train Ant-v5 --ray ray://head:10001"),
    ],
)
def test_address_is_optional(given: str, completed: str) -> None:
    assert complete_ray_option(given.split()) == completed.split()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((None, 1.0, None, None), "need --ray"),
        (("auto", None, None, "gpu"), "takes the place of --devices"),
        (("auto", 1.5, None, None), "whole number, not 1.5"),
        (("auto", -1.0, None, None), "not -1"),
        (("auto", None, 0, None), "at least 1, not 0"),
    ],
)
def test_options_that_cannot_be_meant(options: tuple, words: str) -> None:
    with pytest.raises(InputError, match=words):
        cluster_config(*options)


def test_log_is_followed_also_where_a_resumed_run_cuts_it(tmp_path: Path) -> None:
    log = tmp_path / "metrics.jsonl"
    row = '{{"kind": "train", "seed": 0, "env_steps": {0}, "updates": {0}, "faults": ["x"]}}\n'
    progress = Progress("sac-lfiw", total_env_steps=1000, num_runs=1)
    reader = LogReader(log, progress)
    reader.read()  # there is none yet
    log.write_text(row.format(100) + row.format(200)[:20])
    reader.read()
    assert (progress.env_steps, progress.faults) == (100, 1)
    log.write_text(row.format(100) + row.format(200) + row.format(300))
    reader.read()
    assert (progress.env_steps, progress.faults) == (300, 3)
    log.write_text(row.format(100) + row.format(150))
    reader.read()
    assert (progress.env_steps, progress.faults) == (150, 2)


def test_any_number_of_cores_may_go_on(tmp_path: Path) -> None:
    def config(**hardware: Any) -> dict[str, Any]:
        env = {"config": {"env": {"id": "none"}, "seeds": [0]}}
        write_config(tmp_path, env | {"hardware": hardware})
        return read_config(tmp_path)

    here = {"hardware": {"platform": "cpu", "cpu": "Fast", "cores": 2, "num_devices": 2}}
    folder = tmp_path
    refuse_differences(folder, config(platform="cpu", cpu="Fast", cores=64, num_devices=5), here)
    with pytest.raises(InputError, match="cpu Slow then, Fast now"):
        refuse_differences(folder, config(platform="cpu", cpu="Slow", cores=2), here)
    on_gpu = {"hardware": {"platform": "gpu", "num_devices": 2}}
    with pytest.raises(InputError, match="num_devices 1 then, 2 now"):
        refuse_differences(folder, config(platform="gpu", num_devices=1), on_gpu)


@pytest.mark.slow
def test_one_core_gives_the_bits_of_all(tmp_path: Path) -> None:
    """With networks that are large enough for XLA to share out their work if it could."""
    arguments = [
        *("train", "Pendulum-v1", "--env-steps", "350", "--workers", "0", "--set"),
        *("learning_starts=300", "random_env_steps=300", "phase_env_steps=50"),
        *("replay.warmup_env_steps=0", "replay.fast_size=100", "eval_episodes=1"),
    ]
    cores = {"one": "{min(os.sched_getaffinity(0))}", "all": "os.sched_getaffinity(0)"}
    for name in cores:
        code = (
            f"import os; os.sched_setaffinity(0, {cores[name]}); from lfiw.cli import main; "
            f"main({[*arguments, '--out', str(tmp_path / name)]})"
        )
        own = {"XDG_CACHE_HOME": str(tmp_path / f"cache-{name}"), "XLA_FLAGS": ""}  # as users have
        subprocess.run(
            [sys.executable, "-c", code], env=os.environ | own, check=True, timeout=PATIENCE
        )
    one, every = (tmp_path / name / "Pendulum-v1" / "sac-lfiw" for name in cores)
    assert rows(one) == rows(every)
    assert contents(one) == contents(every)


def test_missing_ray_gives_the_install_command(tmp_path: Path) -> None:
    code = (
        f"import sys; sys.modules['ray'] = None; from lfiw.cli import main; "
        f"main(['train', 'Pendulum-v1', '--out', {str(tmp_path / 'out')!r}, '--ray'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 2
    assert 'pip install "ray[client]>=' in done.stderr
    assert not (tmp_path / "out").exists()


LISTENING = """
import os, pathlib
from lfiw.cluster.ray import connected

def descendants(pid):
    children = pathlib.Path(f"/proc/{pid}/task").glob("*/children")
    own = [int(child) for listed in children for child in listed.read_text().split()]
    return [pid, *(below for child in own for below in descendants(child))]

def sockets(pid):
    for handle in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = os.readlink(handle)
        except OSError:
            continue
        if target.startswith("socket:["):
            yield target[8:-1]

with connected("local") as ray:
    secret = ray.remote(lambda: (os.environ["RAY_AUTH_MODE"], len(os.environ["RAY_AUTH_TOKEN"])))
    assert ray.get(secret.remote()) == ("token", 64)
    ours = {inode for pid in descendants(os.getpid()) for inode in sockets(pid)}
    for table in ("tcp", "tcp6"):
        for line in pathlib.Path("/proc/net", table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in ours:  # it listens
                print(fields[1].partition(":")[0])
"""


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed.")
@pytest.mark.skipif(sys.platform != "linux", reason="This looks at Linux's /proc.")
def test_ray_on_this_machine_listens_on_the_loopback_alone() -> None:
    """Addresses are in hexadecimal, by words of four bytes whose last byte comes first."""
    done = subprocess.run(
        [sys.executable, "-c", LISTENING], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    addresses = done.stdout.split()
    assert len(addresses) >= 3
    assert set(addresses) <= {"0100007F", f"{'0' * 16}FFFF00000100007F", f"{'0' * 24}01000000"}
