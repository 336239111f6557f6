from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from small import small

from lfiw.bench.profile import Operation, bench_profile, operations_in, ranked, read_listing
from lfiw.cli.bench import BenchProfile
from lfiw.errors import InputError
from lfiw.learning.config import make_config

LISTING = """
  %dot.3 = f32[2,256]{1,0} dot(%a, %b), metadata={op_name="jit(f)/while/body/jvp()/dot_general"}
  ROOT %fusion = (f32[2]{0}, /*index=5*/s32[]) fusion(%dot.3), kind=kLoop, calls=%inner
  %while.1 = (f32[2]{0}) while(%tuple), condition=%c, body=%b
"""


def test_listing_is_read() -> None:
    known = read_listing(LISTING)
    assert known["dot.3"] == Operation("dot", "f32[2,256]", "jvp()/dot_general")
    assert known["dot_3"] == known["dot.3"]  # the name of its kernel
    assert known["fusion"] == Operation("fusion", "(f32[2], s32[])", "")


def test_rows_by_hand() -> None:
    """Two updates; a loop's time is that of what it holds."""
    events = [("dot.3", 3000.0), ("dot.3", 5000.0), ("kernel", 2000.0), ("while.1", 9000.0)]
    longest, other = ranked(events, read_listing(LISTING), updates=2)
    assert longest == {
        "operation": "dot.3",
        "us_per_update": 4.0,
        "share": 0.8,
        "times_per_update": 1.0,
        "kind": "dot",
        "result": "f32[2,256]",
        "source": "jvp()/dot_general",
    }
    assert (other["operation"], other["share"], other["kind"]) == ("kernel", 0.2, "")


def event(name: str, **stats: Any) -> Any:
    return SimpleNamespace(name=name, duration_ns=1.0, stats=stats.items())


def plane(name: str, **lines: list[Any]) -> Any:
    made = [SimpleNamespace(name=line, events=events) for line, events in lines.items()]
    return SimpleNamespace(name=name, lines=made)


def names_in(*planes: Any) -> list[str]:
    return [name for name, _ in operations_in(SimpleNamespace(planes=planes))]


def test_a_gpu_kernel_is_counted_once() -> None:
    """In a profile the kernels of a stream stand again in lines for modules and operations."""
    kernels = [event("a"), event("b", hlo_op="c")]
    gpu = plane("/device:GPU:0", Stream_13=kernels, XLA_Ops=kernels)
    cpu = plane("/host:CPU", python=[event("append"), event("x", hlo_op="dot.3")])
    assert names_in(gpu, cpu) == ["a", "c"]
    assert names_in(cpu) == ["dot.3"]


def test_products_of_an_update_are_found() -> None:
    config = make_config("environments:make_point", "sac", "uniform", **small("uniform"))
    result = bench_profile(config, top=1000)
    assert sum(row["share"] for row in result.rows) == pytest.approx(1)
    assert any("dot_general" in row["source"] for row in result.rows)
    assert not any(row["kind"] == "while" for row in result.rows)
    assert {1.0} < {row["times_per_update"] for row in result.rows}
    assert len(bench_profile(config, top=3).rows) == 3


def test_nothing_to_show_is_one_sentence() -> None:
    with pytest.raises(InputError, match="--top must be at least 1"):
        BenchProfile(top=0).run(Console(quiet=True))
