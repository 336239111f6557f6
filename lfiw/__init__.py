"""Experience replay with likelihood-free importance weights.

Names are imported when first used, so that a policy loads with numpy alone.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "1.2.0"

if TYPE_CHECKING:
    from lfiw.acting.policy import Policy
    from lfiw.agents.flashsac import FlashSacConfig
    from lfiw.agents.sac import SacConfig
    from lfiw.agents.td3 import Td3Config
    from lfiw.agents.xqc import XqcConfig
    from lfiw.env_config import EnvConfig
    from lfiw.errors import InputError
    from lfiw.exporting.formats import export
    from lfiw.learning.config import TrainConfig, make_config
    from lfiw.replay.ere import EreConfig
    from lfiw.replay.lfiw import LfiwConfig
    from lfiw.replay.per import PerConfig
    from lfiw.replay.uniform import UniformConfig
    from lfiw.runs.evaluate import evaluate
    from lfiw.runs.policies import load_policy
    from lfiw.runs.record import Recording, record
    from lfiw.training import train, train_all
    from lfiw.training.callback import Evaluation
    from lfiw.training.folder import Training
    from lfiw.training.resume import resume, resume_all

_HOMES = {
    "SacConfig": "lfiw.agents.sac",
    "Td3Config": "lfiw.agents.td3",
    "XqcConfig": "lfiw.agents.xqc",
    "FlashSacConfig": "lfiw.agents.flashsac",
    "TrainConfig": "lfiw.learning.config",
    "make_config": "lfiw.learning.config",
    "EnvConfig": "lfiw.env_config",
    "InputError": "lfiw.errors",
    "Policy": "lfiw.acting.policy",
    "load_policy": "lfiw.runs.policies",
    "evaluate": "lfiw.runs.evaluate",
    "export": "lfiw.exporting.formats",
    "Recording": "lfiw.runs.record",
    "record": "lfiw.runs.record",
    "UniformConfig": "lfiw.replay.uniform",
    "PerConfig": "lfiw.replay.per",
    "EreConfig": "lfiw.replay.ere",
    "LfiwConfig": "lfiw.replay.lfiw",
    "Training": "lfiw.training.folder",
    "Evaluation": "lfiw.training.callback",
    "train": "lfiw.training",
    "train_all": "lfiw.training",
    "resume": "lfiw.training.resume",
    "resume_all": "lfiw.training.resume",
}

__all__ = [
    "EnvConfig",
    "EreConfig",
    "Evaluation",
    "FlashSacConfig",
    "InputError",
    "LfiwConfig",
    "PerConfig",
    "Policy",
    "Recording",
    "SacConfig",
    "Td3Config",
    "TrainConfig",
    "Training",
    "UniformConfig",
    "XqcConfig",
    "__version__",
    "evaluate",
    "export",
    "load_policy",
    "make_config",
    "record",
    "resume",
    "resume_all",
    "train",
    "train_all",
]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'lfiw' has no attribute {name!r}")
    try:
        return getattr(import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        if (error.name or "lfiw").partition(".")[0] == "lfiw":
            raise
        from lfiw.extras import install_command

        sentence = f"lfiw.{name} needs {error.name}: {install_command()}"
        raise ModuleNotFoundError(sentence, name=error.name) from None
