import dataclasses
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from lfiw.errors import InputError
from lfiw.settings import (
    check_ranges,
    from_json,
    override,
    parse,
    parse_literal,
    range_text,
    setting,
    to_json,
    walk,
)
from lfiw.wording import nearest


@dataclass(frozen=True)
class Engine:
    power: float = setting(1.5, above=0)
    gears: tuple[int, ...] = setting((1, 2), at_least=1, at_most=9)


@dataclass(frozen=True)
class Car:
    engine: Engine = field(default_factory=Engine)
    doors: int = setting(4, at_least=2, at_most=5)
    weight: float | None = setting(None, above=0)
    colour: Literal["red", "green"] = "red"
    electric: bool = False
    plate: str = "A-1"
    extras: dict[str, Any] = field(default_factory=dict)


def sentence_of(call: Any, *arguments: Any) -> str:
    with pytest.raises(InputError) as raised:
        call(*arguments)
    text = str(raised.value)
    assert text.endswith((".", "?"))
    assert "\n" not in text
    return text


@pytest.mark.parametrize(
    ("hint", "text", "value"),
    [
        (int, "7", 7),
        (int, "-7", -7),
        (int, "1e6", 1_000_000),
        (int, "1_000_000", 1_000_000),
        (int, "2.0", 2),
        (float, "1e-3", 0.001),
        (float, "-2", -2.0),
        (bool, "true", True),
        (bool, "Yes", True),
        (bool, "1", True),
        (bool, "False", False),
        (bool, "no", False),
        (bool, "0", False),
        (str, "1e6", "1e6"),
        (Literal["a", "b"], "b", "b"),
        (float | None, "none", None),
        (float | None, "None", None),
        (float | None, "2", 2.0),
        (int | None, "1e3", 1000),
        (tuple[int, ...], "400,300", (400, 300)),
        (tuple[int, ...], "[400, 300]", (400, 300)),
        (tuple[int, ...], "(400,)", (400,)),
        (tuple[int, ...], "64", (64,)),
        (tuple[int, ...], "", ()),
        (tuple[float, ...], "1,2.5", (1.0, 2.5)),
    ],
)
def test_text_is_parsed_by_type(hint: Any, text: str, value: Any) -> None:
    parsed = parse("key", text, hint)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("hint", "text"),
    [
        (int, "1.5"),
        (int, "many"),
        (int, ""),
        (int, "nan"),
        (int, "inf"),
        (int, "none"),
        (float, "fast"),
        (float, ""),
        (bool, "maybe"),
        (bool, "2"),
        (tuple[int, ...], "1,x"),
        (tuple[int, ...], "1.5"),
        (float | None, "nothing"),
    ],
)
def test_text_of_another_type_is_refused(hint: Any, text: str) -> None:
    message = sentence_of(parse, "engine.power", text, hint)
    assert "engine.power takes a value of type" in message


def test_refused_text_is_named() -> None:
    assert sentence_of(parse, "doors", "two", int) == "doors takes a value of type int, not 'two'."


def test_literal_gets_the_nearest_value() -> None:
    assert sentence_of(parse, "colour", "gren", Literal["red", "green"]) == (
        "colour cannot be 'gren'. Did you mean green?"
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2", 2),
        ("2.5", 2.5),
        ("true", True),
        ("False", False),
        ("none", None),
        ("null", None),
        ("[1, 2]", [1, 2]),
        ("'a b'", "a b"),
        ("word", "word"),
        ("a(b", "a(b"),
        ("__import__('os')", "__import__('os')"),
        (3, 3),
    ],
)
def test_literal_of_an_undeclared_type(text: Any, value: Any) -> None:
    assert parse_literal(text) == value


def test_nearest_name() -> None:
    assert nearest("TEMPRATURE", ["temperature", "tau"]) == " Did you mean temperature?"
    assert nearest("halfcheetah-v5", ["HalfCheetah-v5", "Ant-v5"]) == (
        " Did you mean HalfCheetah-v5?"
    )
    assert nearest("qqq", ["b", "a"]) == " Valid names: a, b."
    assert nearest("qqq", [f"name{index}" for index in range(41)]) == ""


def test_walk_names_every_setting() -> None:
    assert {name: value for name, _, value in walk(Car())} == {
        "engine.power": 1.5,
        "engine.gears": (1, 2),
        "doors": 4,
        "weight": None,
        "colour": "red",
        "electric": False,
        "plate": "A-1",
        "extras": {},
    }


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("engine.power", 0, "engine.power must be above 0, not 0.0."),
        ("engine.power", -1.0, "engine.power must be above 0, not -1.0."),
        ("engine.power", float("nan"), "engine.power must be finite, not nan."),
        ("engine.power", float("inf"), "engine.power must be finite, not inf."),
        ("doors", 1, "doors must be at least 2, not 1."),
        ("doors", 6, "doors must be at most 5, not 6."),
        ("weight", 0.0, "weight must be above 0, not 0.0."),
        ("engine.gears", (1, 2, 0), "engine.gears must be at least 1, not 0."),
        ("engine.gears", (10,), "engine.gears must be at most 9, not 10."),
    ],
)
def test_values_out_of_range_are_refused(key: str, value: Any, message: str) -> None:
    assert sentence_of(check_ranges, override(Car(), key, value)) == message


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("engine.power", 1e-30),
        ("doors", 2),
        ("doors", 5),
        ("weight", None),
        ("weight", 3.0),
        ("engine.gears", (1, 9)),
        ("engine.gears", ()),
    ],
)
def test_values_at_the_edge_of_the_range_pass(key: str, value: Any) -> None:
    check_ranges(override(Car(), key, value))


def test_override_replaces_one_setting_in_a_copy() -> None:
    car = Car()
    changed = override(override(car, "engine.gears", "3,4"), "doors", "2")
    assert changed == Car(engine=Engine(gears=(3, 4)), doors=2)
    assert car == Car()
    assert override(car, "weight", 2.0).weight == 2.0


def test_override_adds_to_a_dict() -> None:
    car = override(override(Car(), "extras.radio", "true"), "extras.wheels", "[4, 5]")
    assert car.extras == {"radio": True, "wheels": [4, 5]}
    assert Car().extras == {}


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("dors", "Did you mean doors?"),
        ("engine.pwer", "Did you mean engine.power?"),
        ("colour.dark", "'colour' has no part 'dark'"),
        ("engine", "has parts of its own"),
        ("extras", "has parts of its own"),
        ("", "Unknown setting ''"),
        ("engine.", "has parts of its own"),
    ],
)
def test_override_of_what_is_not_a_setting(key: str, hint: str) -> None:
    assert hint in sentence_of(override, Car(), key, "1")


def test_range_text() -> None:
    texts = {
        entry.name: range_text(owner, entry)
        for owner in (Engine, Car)
        for entry in dataclasses.fields(owner)
        if entry.name != "engine"
    }
    assert texts["power"] == "float > 0"
    assert texts["doors"] == "int >= 2 <= 5"
    assert texts["colour"] == "red | green"
    assert texts["electric"] == "bool"


def test_json_round_trip() -> None:
    car = Car(engine=Engine(2.5, (3,)), weight=1.0, colour="green", extras={"radio": [1, None]})
    stored = to_json(car)
    assert stored["engine"] == {"power": 2.5, "gears": [3]}
    assert from_json(Car, stored) == car


def test_json_with_unknown_settings_is_refused() -> None:
    assert "Unknown setting 'wings'" in sentence_of(from_json, Car, {"wings": 2})
