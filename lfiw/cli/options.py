"""What several commands read from their options."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from lfiw.agents import AGENTS
from lfiw.errors import InputError
from lfiw.replay import REPLAYS
from lfiw.tracking import TRACKERS
from lfiw.wording import nearest, one_line

if TYPE_CHECKING:
    from lfiw.cluster.ray import ClusterConfig
    from lfiw.learning.config import TrainConfig


def unset(metavar: str, meaning: str = "", text: str | None = None) -> Any:
    """An option that stands for no value by itself: what its help says of its absence."""
    hint = f"(default: {meaning})" if meaning else ""
    return tyro.conf.arg(metavar=metavar, help=text, help_behavior_hint=hint)


AGENT_NAMES = f"Agents, separated by commas: {', '.join(AGENTS)}."
REPLAY_NAMES = f"Replay strategies, separated by commas: {', '.join(REPLAYS)}."
AgentNames = Annotated[str, tyro.conf.arg(help=AGENT_NAMES)]
ReplayNames = Annotated[str, tyro.conf.arg(help=REPLAY_NAMES)]
AgentName = Annotated[str, tyro.conf.arg(help=f"The agent: {', '.join(AGENTS)}.")]
ReplayName = Annotated[str, tyro.conf.arg(help=f"The replay strategy: {', '.join(REPLAYS)}.")]
TRACK = f"Experiment trackers that follow the runs, separated by commas: {', '.join(TRACKERS)}."
TrackWith = Annotated[str | None, unset("NAME,...", "", TRACK)]
STOP_AT_RETURN = "End a run when the mean return of an evaluation reaches this."
StopAtReturn = Annotated[float | None, unset("FLOAT", "", STOP_AT_RETURN)]
Assignments = Annotated[
    tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="NAME=VALUE")
]


Flag = Annotated[bool, tyro.conf.FlagCreatePairsOff, tyro.conf.arg(help_behavior_hint="")]
Folders = Annotated[tuple[Path, ...], tyro.conf.Positional, unset("FOLDER...")]
Folder = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER")]
TRUST_ENV = (
    "Make the environment that a folder names although somebody else may have made the folder: "
    "this can run any code."
)
TrustEnv = Annotated[
    bool, tyro.conf.FlagCreatePairsOff, tyro.conf.arg(help=TRUST_ENV, help_behavior_hint="")
]


@dataclass(kw_only=True)
class Command:
    """What every command takes."""

    quiet: Flag = False
    """Print results and errors only."""
    debug: Flag = False
    """Show the whole traceback of an error."""

    def note(self, sentence: str) -> None:
        """Tell of something that is no part of the result."""
        if not self.quiet:
            print(f"lfiw: {one_line(sentence)}", file=sys.stderr)


@dataclass(kw_only=True)
class OnMachine(Command):
    """What a command that trains needs of this machine."""

    workers: Annotated[int | None, unset("INT", "one per core")] = None
    """Processes that step environments, for each method; 0: in this process."""
    devices: Annotated[str | None, unset("STR", "all")] = None
    """Devices that train: cpu, gpu, cpu:2 (the first two) or gpu:0,2."""


@dataclass(kw_only=True)
class OnCluster(OnMachine):
    """And of a cluster, if it trains there."""

    ray: Annotated[str | None, unset("[ADDRESS]")] = None
    """Train on a Ray cluster (auto, HOST:PORT, ray://HOST:PORT), or on one that is started here."""
    gpus_per_group: Annotated[float | None, unset("FLOAT", "0.5 where there are any, else 0")] = (
        None
    )
    """With --ray: GPUs of each method."""
    cpus_per_group: Annotated[int | None, unset("INT", "one for each seed, as a node has them")] = (
        None
    )
    """With --ray: CPUs of each method."""

    def cluster(self) -> ClusterConfig | None:
        from lfiw.cluster.ray import cluster_config

        return cluster_config(self.ray, self.gpus_per_group, self.cpus_per_group, self.devices)


def parse_seeds(text: str) -> tuple[int, ...]:
    from lfiw.settings import parse

    seeds: tuple[int, ...] = parse("--seeds", text, tuple[int, ...])
    if not seeds:
        raise InputError("At least one seed is needed.")
    return seeds


def parse_env_steps(text: str | None) -> int | None:
    """None where the option was not given."""
    from lfiw.settings import parse

    return None if text is None else int(parse("--env-steps", text, int))


def split_names(text: str | None, option: str) -> tuple[str, ...]:
    """Names separated by commas; none where the option was not given."""
    if text is None:
        return ()
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise InputError(f"{option} needs at least one name.")
    if len(set(names)) != len(names):
        raise InputError(f"{option} names {text!r} contain one twice.")
    return names


def set_where_known(
    configs: list[TrainConfig], key: str, value: str, preset: str
) -> list[TrainConfig]:
    """Apply a setting to every method that has it; at least one must."""
    from lfiw.settings import has_setting, override

    refuse_unknown(configs, key)
    return [
        override(config, key, value, preset) if has_setting(config, key) else config
        for config in configs
    ]


def apply_sweeps(
    configs: list[TrainConfig],
    sweeps: Sequence[str],
    preset: str = "default",
    assignments: Sequence[str] = (),
) -> tuple[list[TrainConfig], list[str]]:
    """What `--sweep KEY=VALUE,VALUE...` asks for: every method that has the setting once for each
    value, labelled by it. The `assignments` of `--set` are applied already."""
    swept = [(config, "") for config in configs]
    fixed = {name_today(configs, key_of(assignment)) for assignment in assignments}
    names: set[str] = set()
    for sweep in sweeps:
        key, (_, equals, text) = key_of(sweep), sweep.partition("=")
        values = split_names(text, "--sweep") if equals else ()
        if not values:
            raise InputError(f"--sweep takes KEY=VALUE,VALUE..., not {sweep!r}.")
        if set(text) & set("()[]"):
            raise InputError(
                f"--sweep cannot take {sweep!r}, as lists cannot be swept: train once for each, "
                "with --set and --label."
            )
        refuse_unknown([config for config, _ in swept], key)
        name = name_today([config for config, _ in swept], key)
        if name in fixed:
            raise InputError(f"{name} is both set and swept: leave out one of the two.")
        if name in names:
            raise InputError(f"--sweep names {name} twice: give all its values at once.")
        names.add(name)
        swept = [
            labelled
            for config, label in swept
            for labelled in sweep_one(config, label, key, values, preset)
        ]
    return [config for config, _ in swept], [label for _, label in swept]


def sweep_one(
    config: TrainConfig, label: str, key: str, values: Sequence[str], preset: str
) -> list[tuple[TrainConfig, str]]:
    from lfiw.settings import has_setting, override

    if not has_setting(config, key):
        return [(config, label)]
    short = key.rpartition(".")[2]
    made: list[TrainConfig] = []
    for value in values:
        changed = override(config, key, value, preset)
        if changed in made:
            same = values[made.index(changed)]
            raise InputError(
                f"--sweep gives {key} equal values, {same} and {value}: leave out one."
            )
        made.append(changed)
    labels = ["-".join(filter(None, (label, f"{short}={value}"))) for value in values]
    return list(zip(made, labels, strict=True))


def key_of(assignment: str) -> str:
    return assignment.partition("=")[0].strip()


def name_today(configs: Sequence[TrainConfig], key: str) -> str:
    """The setting's name without older ones in it, so that equal names are the same setting."""
    from lfiw.settings import has_setting

    def today(config: Any, key: str) -> str:
        head, dot, rest = key.partition(".")
        head = getattr(config, "OLD_NAMES", {}).get(head, head)
        return f"{head}.{today(getattr(config, head, None), rest)}" if dot else head

    return next((today(config, key) for config in configs if has_setting(config, key)), key)


def refuse_unknown(configs: Sequence[TrainConfig], key: str) -> None:
    """A setting that no method has."""
    from lfiw.settings import has_setting, parts, walk

    if any(has_setting(config, key) for config in configs):
        return
    part, _, own = key.partition(".")
    known: dict[str, Mapping[str, Any]] = {"agent": AGENTS, "replay": REPLAYS}
    others = [name for name, kind in known.get(part, {}).items() if has_setting(kind(), own)]
    if others:
        chosen = dict.fromkeys(getattr(config, part).name for config in configs)
        raise InputError(
            f"{key} is no setting of {' or '.join(chosen)}, but of {', '.join(others)}: name one "
            f"of these with --{part}, or leave out the setting."
        )
    names = {name for config in configs for name, *_ in walk(config)}
    names |= {name for config in configs for name, *_ in parts(config)}
    raise InputError(f"Unknown setting {key!r}.{nearest(key, names)}")


def apply_settings(
    configs: list[TrainConfig], assignments: Sequence[str], preset: str = "default"
) -> list[TrainConfig]:
    """What `--set KEY=VALUE` asks for."""
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not equals:
            raise InputError(f"--set takes KEY=VALUE, not {assignment!r}.")
        configs = set_where_known(configs, key.strip(), value.strip(), preset)
    return configs
