"""Sentences name options as their reader writes them."""

import ast
import os
import re
from pathlib import Path

import lfiw
from lfiw.wording import COMMAND_LINE, assignment, on_command_line, option, option_name

PACKAGE = Path(lfiw.__file__).parent


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


def test_what_python_calls_names_no_option_of_commands() -> None:
    """Sentences there go through `option` and `assignment`."""
    rooms = ("acting", "agents", "learning", "networks", "ratio", "replay", "runs", "training")
    for path in (file for room in rooms for file in (PACKAGE / room).glob("*.py")):
        tree = ast.parse(path.read_text())
        described = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            and node.body
            and isinstance(node.body[0], ast.Expr)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                named = re.search(r"(^|[ (`])--[a-z]", node.value)
                assert id(node) in described or not named, f"{path.name}: {node.value}"
