"""Sweeps on a real Ray cluster of several nodes on this machine: whatever dies, every run ends
with the bits of a local training."""

import importlib.util
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from processes import PATIENCE, finish, import_path, wait_for
from rich.console import Console
from trainings import ENV, SETTINGS, command, contents, rows

from lfiw import EnvConfig, Training, make_config
from lfiw.cluster import supervisor
from lfiw.cluster.ray import OBJECT_STORE_BYTES, ClusterConfig
from lfiw.cluster.supervisor import supervise
from lfiw.errors import RunError
from lfiw.paper.reproduce import Reproduction, is_complete
from lfiw.runs.checkpoint import list_checkpoints

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("ray") is None,
        reason="Ray is not installed; `make install` brings it, as does pip install 'lfiw[ray]'.",
    ),
]
METHODS = ("sac-lfiw", "sac-per", "sac-uniform")
LAST = "000000002000"  # checkpoints of this many environment steps
TRAIN = (
    *("train", ENV, "--replay", "uniform,per,lfiw", "--num-seeds", "2", "--env-steps", "2000"),
    *("--set", *SETTINGS),
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def cluster(place: Path) -> Iterator[Any]:
    """Two nodes with a CPU each, so that of three groups one waits."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", import_path())  # for the nodes' processes, as are the others
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        # A node that is slow to answer, or to start a process, is not taken for dead.
        patch.setenv("RAY_health_check_timeout_ms", str(int(1000 * PATIENCE)))
        patch.setenv("RAY_worker_register_timeout_seconds", str(int(PATIENCE)))
        node = {"num_cpus": 1, "object_store_memory": OBJECT_STORE_BYTES}
        made = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
        made.add_node(**node)
        yield made
        made.shutdown()


@pytest.fixture(scope="module")
def local(place: Path) -> Path:
    finish(command(*TRAIN, "--out", str(place / "local")))
    return folders_below(place / "local")


def folders_below(out: Path) -> Path:
    return out / "environments-make_point"


def start_training(out: Path, address: str, *options: str) -> subprocess.Popen[str]:
    """With environments in the groups' own processes, unlike the local training, and all the
    time that tasks may need to save when they are stopped."""
    share = ("--cpus-per-group", "1", "--workers", "0")
    arguments = [*TRAIN, "--out", str(out), "--ray", address, *share, *options]
    code = (
        f"from lfiw.cluster import supervisor; supervisor.STOP_SECONDS = {PATIENCE}; "
        f"from lfiw.cli import main; main({arguments})"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": import_path()},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def assert_same(out: Path, local: Path) -> None:
    assert sorted(path.name for path in folders_below(out).iterdir()) == sorted(METHODS)
    for method in METHODS:
        run = folders_below(out) / method
        assert rows(run) == rows(local / method), method
        assert contents(run) == contents(local / method), method


def in_training(out: Path, rows_each: int = 4) -> list[Path]:
    """Method folders that have logged some rows and have not come to their end."""
    logs = folders_below(out).glob("*/metrics.jsonl")
    unfinished = [log.parent for log in logs if not is_finished(log.parent)]
    return [run for run in unfinished if len(rows_so_far(run)) >= rows_each]


def rows_so_far(run: Path) -> list[str]:
    return (run / "metrics.jsonl").read_text().splitlines()


def is_finished(run: Path) -> bool:
    return any(path.name.startswith(LAST) for path in list_checkpoints(run))


def writer_of(runs: list[Path]) -> int | None:
    """A process that holds the lock of one of the folders."""
    inodes = {str((run / "lock").stat().st_ino) for run in runs}
    for line in Path("/proc/locks").read_text().splitlines():
        fields = line.split()
        if "FLOCK" in fields and fields[-3].rpartition(":")[2] in inodes:
            return int(fields[fields.index("WRITE") + 1])
    return None


def test_ray_on_this_machine_gives_the_local_bits(place: Path, local: Path) -> None:
    out = place / "here"
    process = command(*TRAIN, "--out", str(out), "--ray")
    output = finish(process)
    assert "3 done, 0 training, 0 waiting, 0 failed" in output
    assert_same(out, local)
    before = {path: path.stat().st_mtime_ns for path in out.glob("**/*")}
    finish(command(*TRAIN, "--out", str(out), "--ray"))
    assert {path: path.stat().st_mtime_ns for path in out.glob("**/*")} == before


def test_killed_process_is_replaced(place: Path, local: Path, cluster: Any) -> None:
    out = place / "killed-process"
    process = start_training(out, cluster.address)
    for _ in range(2):
        os.kill(wait_for(lambda: writer_of(in_training(out)), process), signal.SIGKILL)
    assert "died and is taken up again" in finish(process)
    assert_same(out, local)


def test_removed_node_is_done_without(place: Path, local: Path, cluster: Any) -> None:
    out = place / "removed-node"
    process = start_training(out, cluster.address)
    wait_for(lambda: len(in_training(out)) == 2, process)
    node = next(iter(cluster.worker_nodes))
    cluster.remove_node(node, allow_graceful=False)
    assert "died and is taken up again" in finish(process)
    cluster.add_node(num_cpus=1, object_store_memory=OBJECT_STORE_BYTES)
    assert_same(out, local)


def test_interrupted_and_killed_driver_goes_on(place: Path, local: Path, cluster: Any) -> None:
    """And what was finished is not touched again."""
    out = place / "driver"
    seldom = ("--set", "checkpoint.every_env_steps=100000")
    process = start_training(out, cluster.address, *seldom)
    run = wait_for(lambda: in_training(out), process)[0]
    process.send_signal(signal.SIGTERM)
    finish(process, code=130)
    assert int(list_checkpoints(run)[0].name.split("-")[0]) > 0  # saved when it was asked to stop

    process = start_training(out, cluster.address, *seldom)
    done = wait_for(
        lambda: [run for run in folders_below(out).iterdir() if is_finished(run)], process
    )
    files = [path for run in done for path in run.glob(f"checkpoints/{LAST}*/*")]
    stamps = {path: path.stat().st_mtime_ns for path in files}
    process.kill()
    process.communicate()
    finish(start_training(out, cluster.address, *seldom))
    assert_same(out, local)
    assert stamps
    assert {path: path.stat().st_mtime_ns for path in stamps} == stamps


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--gpus-per-group", "2"), "takes 1 CPUs, 2 GPUs"),
        (("--cpus-per-group", "64"), "takes 64 CPUs, 0 GPUs"),
    ],
)
def test_what_no_node_has_is_refused(
    tmp_path: Path, cluster: Any, options: tuple[str, ...], words: str
) -> None:
    process = start_training(tmp_path / "out", cluster.address, *options)
    output = finish(process, code=2)
    assert words in output
    assert "the nodes have 1 CPUs, 0 GPUs" in output
    assert not (tmp_path / "out").exists()


def test_groups_that_fail_are_named(
    tmp_path: Path, cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first kills its process each time, the second has a bad sensor, the third trains."""
    monkeypatch.setattr(supervisor, "MAX_FRUITLESS_DEATHS", 2)
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "support")
    small = {"env_steps": 120, "learning_starts": 100, "batch_size": 16, "eval_episodes": 1}
    runs = [
        Training(
            tmp_path / "point" / fault,
            make_config(
                EnvConfig("environments:make_faulty", {"fault": fault}), "sac", "uniform", **small
            ),
        )
        for fault in ("exit", "obs", "nothing")
    ]
    with pytest.raises(RunError) as caught:
        supervise(runs, ClusterConfig(cluster.address), workers=0, console=Console(quiet=True))
    message = str(caught.value)
    assert "point/exit failed: it died 2 times in a row" in message
    assert "point/obs failed: obs stopped:" in message
    assert "point/nothing" not in message
    assert rows(tmp_path / "point" / "nothing")[-1]["env_steps"] == 120


def test_reproduce_trains_on_the_cluster(
    tmp_path: Path, cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "support")
    small = {"env_steps": 120, "learning_starts": 100, "batch_size": 16, "eval_episodes": 1}
    run = Training(tmp_path / "point" / "small", make_config(ENV, "sac", "uniform", **small))
    where = ClusterConfig(cluster.address)
    Reproduction("smoke", tmp_path, cluster=where, console=Console(quiet=True)).train_missing([run])
    assert is_complete(run)
