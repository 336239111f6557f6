"""Lists the fields of a class in the API reference: a setting by its meaning and range, as `lfiw
settings` does, another field by the comment on it. Examples in docstrings are shown as code."""

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
        if isinstance(call, griffe.ExprCall) and str(call.function) in ("setting", "part"):
            take_setting(attr, call)
        elif attr.docstring is None:
            describe(attr, comment_of(attr))

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = EXAMPLE.sub(
                lambda found: f"```python\n{found[0]}\n```", obj.docstring.value
            )

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        classes = [own for module in modules(pkg) for own in module.classes.values()]
        texts = {cls: text for cls in classes if not cls.is_alias and (text := fields_of(cls))}
        for cls, text in texts.items():
            before = cls.docstring.value + "\n\n" if cls.docstring else ""
            cls.docstring = griffe.Docstring(f"{before}Attributes:\n{text}", parent=cls)


def modules(module: griffe.Module) -> list[griffe.Module]:
    below = [own for own in module.modules.values() if not own.is_alias]
    return [module, *(deeper for own in below for deeper in modules(own))]


def fields_of(cls: griffe.Class) -> str:
    """A line for each field with a meaning, those of base classes first."""
    found: dict[str, str] = {}
    for owner in [*reversed(cls.mro()), cls]:
        for name, attr in owner.attributes.items():
            if attr.docstring and not attr.is_alias and "property" not in attr.labels:
                found[name] = f"    {name}: {attr.docstring.value}"
    return "\n".join(found.values())


def take_setting(attr: griffe.Attribute, call: griffe.ExprCall) -> None:
    """What `setting(...)` or `part(...)` declares, as a plain default and a sentence."""
    named = [own for own in call.arguments if isinstance(own, griffe.ExprKeyword)]
    first, *others = [own for own in call.arguments if own not in named]
    meaning = ast.literal_eval(str(others[-1]))
    limits = [f"{LIMITS[own.name]} {own.value}" for own in named if own.name in LIMITS]
    describe(attr, meaning + (f" ({', '.join(limits)})" if limits else ""))
    attr.value = first if str(call.function) == "setting" else f"{others[0]}()"
    if str(attr.value) == "MISSING":
        attr.value = None


def comment_of(attr: griffe.Attribute) -> str:
    """What is said of a field beside it, or in the lines above it."""
    if attr.parent is None or not attr.parent.is_class or attr.lineno is None:
        return ""
    lines = attr.lines_collection[attr.filepath][: attr.lineno]
    if beside := re.search(r"  # (.+)$", lines[-1]):
        return beside[1]
    above: list[str] = []
    while line := re.match(r"\s*# (.+)$", lines[-2 - len(above)]):
        above.insert(0, line[1])
    return " ".join(above)


def describe(attr: griffe.Attribute, words: str) -> None:
    if words:
        text = words[:1].upper() + words[1:].removesuffix(".") + "."
        attr.docstring = griffe.Docstring(text.replace("LARGEST_INTEGER", "2^31 - 1"), parent=attr)
