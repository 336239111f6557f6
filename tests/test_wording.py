"""Sentences name options as their reader writes them."""

import os

from lfiw.wording import COMMAND_LINE, assignment, on_command_line, option, option_name


def test_python_is_told_of_keywords() -> None:
    assert COMMAND_LINE not in os.environ
    assert (option_name("env_steps"), option("allow_inexact")) == (
        "env_steps",
        "allow_inexact=True",
    )
    assert option("devices", "cpu:9") == "devices='cpu:9'"
    assert assignment("replay.fast_size", 9) == '**{"replay.fast_size": 9}'
    assert assignment("batch_size", 9) == "batch_size=9"


def test_the_command_line_is_told_of_options() -> None:
    with on_command_line():
        with on_command_line():
            pass
        assert (option_name("env_steps"), option("allow_inexact")) == (
            "--env-steps",
            "--allow-inexact",
        )
        assert option("devices", "cpu:9") == "--devices cpu:9"
        assert assignment("replay.clip_ratio", True) == "--set replay.clip_ratio=true"
    assert COMMAND_LINE not in os.environ
