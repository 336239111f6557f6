"""The folder of a method: taken for training, begun or taken up again."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lfiw.errors import InputError
from lfiw.learning.config import TrainConfig, check
from lfiw.machine import free_disk, source_commit, versions
from lfiw.runs.checkpoint import checkpoint_name, remove_newer, save_checkpoint
from lfiw.runs.config_file import read_config, write_config
from lfiw.runs.files import sync
from lfiw.runs.layout import method_folder
from lfiw.runs.lock import LOCK, locked
from lfiw.runs.read import read_evaluations
from lfiw.runs.recovery import start_facts
from lfiw.runs.rows import Row
from lfiw.runs.seal import break_seal, is_sealed, remove_leftovers, seal
from lfiw.runs.trust import is_own, signed
from lfiw.runs.verify import verify_run
from lfiw.settings import conformed, to_json
from lfiw.training.jobs import Job
from lfiw.wording import command, option_name, size_text


@dataclass(frozen=True)
class Training(os.PathLike[str]):
    """All seeds of one method in their folder: trained, or to be trained. It can be given wherever
    a path can."""

    folder: Path
    config: TrainConfig

    def __fspath__(self) -> str:
        return str(self.folder)

    def evaluations(self) -> list[Row]:
        """The rows of kind `eval` of its log, as dictionaries."""
        return read_evaluations(self.folder)


def plan_trainings(
    configs: Sequence[TrainConfig], out: str | Path, label: str | Sequence[str]
) -> list[Training]:
    """Checked configs and their folders; the label is one for all, or one for each."""
    configs = [conformed(config) for config in configs]
    for config in configs:
        check(config)
    labels = [label] * len(configs) if isinstance(label, str) else label
    if len(labels) != len(configs):
        raise InputError(f"{len(labels)} labels do not fit {len(configs)} methods.")
    return [
        Training(method_folder(out, config.env.id, config.method, own), config)
        for config, own in zip(configs, labels, strict=True)
    ]


def check_disk(needed: int, folders: Sequence[Path]) -> None:
    """Refuse what would fill the disk in the middle of training."""
    free = min(free_disk(folder) for folder in folders)
    if needed > free:
        raise InputError(
            f"This cannot fit on the disk: {size_text(needed)} needed, {size_text(free)} free."
        )


def refuse_twins(folders: Sequence[Path]) -> None:
    for folder in folders:
        if folders.count(folder) > 1:
            raise InputError(f"Two of the methods would be written to {folder}.")


def refuse_clashes(folders: Sequence[Path]) -> None:
    refuse_twins(folders)
    for folder in folders:
        if folder.exists() and not _is_free(folder):
            raise InputError(
                f"{folder} already holds a training; choose another {option_name('out')} or "
                f"{option_name('label')}, or go on with it ({command('resume')})."
            )


def _is_free(folder: Path) -> bool:
    """Empty, or left by a start that was killed before anything was decided."""
    return folder.is_dir() and {path.name for path in folder.iterdir()} <= {LOCK, "config.tmp"}


def begin_folder(job: Job, circumstances: Mapping[str, Any], locks: ExitStack) -> None:
    """The folder, held by this process, with everything that decides the bits of its runs and
    checkpoint 0: all of it is there before anything is compiled."""
    folder, config = job.folder, job.config
    try:
        folder.mkdir(parents=True, exist_ok=True)
        sync(folder.parent)
        locks.enter_context(locked(folder))
        refuse_clashes([folder])  # another process may have been quicker
        content = {
            "config": to_json(config),
            **circumstances,
            "versions": versions(config.env.backend),
            "command": sys.argv,
            "commit": source_commit(),
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
            **(job.signature or signed(to_json(config.env))),
        }
        write_config(folder, content)
    except OSError as error:
        raise InputError(f"{folder} cannot be written: {error.strerror}.") from None
    save_checkpoint(folder, checkpoint_name(0, 0), start_facts(content), {})


def take_up_folder(job: Job) -> None:
    """Make the folder ready to go on from the job's checkpoint."""
    break_seal(job.folder)
    remove_leftovers(job.folder)
    if job.checkpoint is not None:
        remove_newer(job.checkpoint.path)
    content, config = read_config(job.folder), to_json(job.config)
    signature = job.signature
    if is_own(content) and config["env"] != content["config"]["env"]:  # an older version wrote it
        signature = signed(config["env"])
    if content != (updated := {**content, "config": config, **signature}):
        write_config(job.folder, updated)


def finish_folder(job: Job) -> None:
    """Seal what a kill after the last checkpoint, or an older version, has left without a seal, and
    sign what its user has said to trust; nothing of a folder that is damaged."""
    folder = job.folder
    if (is_sealed(folder) and not job.signature) or verify_run(folder)[0]:
        return
    break_seal(folder)
    remove_leftovers(folder)
    if job.signature:
        write_config(folder, {**read_config(folder), **job.signature})
    seal(folder, late=True)
