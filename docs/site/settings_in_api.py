"""Shows a setting in the API reference by its default and its meaning, as `lfiw settings` does, and
examples in docstrings as code."""

from __future__ import annotations

import ast
import re
from typing import Any

import griffe

LIMITS = {"above": "above", "at_least": "at least", "at_most": "at most"}
EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)


class SettingsInApi(griffe.Extension):
    def on_attribute_instance(self, *, attr: griffe.Attribute, **_: Any) -> None:
        call = attr.value
        if not isinstance(call, griffe.ExprCall):
            return
        kind = str(call.function)
        if kind not in ("setting", "part"):
            return
        plain = [own for own in call.arguments if not isinstance(own, griffe.ExprKeyword)]
        named = [own for own in call.arguments if isinstance(own, griffe.ExprKeyword)]
        words = ast.literal_eval(str(plain[-1]))
        limits = [f"{LIMITS[own.name]} {own.value}" for own in named if own.name in LIMITS]
        attr.value = plain[0] if kind == "setting" else f"{plain[1]}()"
        if str(attr.value) == "MISSING":
            attr.value = None
        text = words[:1].upper() + words[1:] + (f" ({', '.join(limits)})" if limits else "") + "."
        attr.docstring = griffe.Docstring(text.replace("LARGEST_INTEGER", "2^31 - 1"), parent=attr)

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring:
            text = EXAMPLE.sub(lambda found: f"```python\n{found[0]}\n```", obj.docstring.value)
            obj.docstring.value = text
