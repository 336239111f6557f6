"""Checkpoint files: whole or not there, and every damage is seen."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from processes import import_path, wait_for

from lfiw.errors import Damaged, InputError, RunError
from lfiw.runs.checkpoint import (
    list_checkpoints,
    load_checkpoint,
    manifest_bytes,
    remove_newer,
    save_checkpoint,
)
from lfiw.runs.config_file import write_config
from lfiw.runs.files import json_hash
from lfiw.runs.lock import locked
from lfiw.runs.recovery import newest_good, start_facts
from lfiw.runs.segments import SEGMENT_ROWS, Segments
from lfiw.runs.verify import verify_run

ARRAYS = {"seed-0.safetensors": {"x": np.arange(6, dtype=np.float32), "count": np.int32(3)}}


def save(run: Path, name: str) -> Path:
    facts = start_facts({"config": {}}) | {"env_steps": int(name)}
    return save_checkpoint(run, name, facts, ARRAYS)


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    loaded = load_checkpoint(save(tmp_path, "001"))
    assert loaded.facts["env_steps"] == 1
    arrays = loaded.arrays["seed-0.safetensors"]
    np.testing.assert_array_equal(arrays["x"], [0, 1, 2, 3, 4, 5])
    assert arrays["count"].shape == ()


def test_the_two_newest_are_kept_and_the_newest_is_used(tmp_path: Path) -> None:
    for name in ("001", "002", "003"):
        save(tmp_path, name)
    assert [path.name for path in list_checkpoints(tmp_path)] == ["003", "002"]
    checkpoint, complaints = newest_good(tmp_path, 1)
    assert checkpoint is not None
    assert (checkpoint.facts["env_steps"], complaints) == (3, [])


def test_a_team_goes_on_from_the_newest_that_all_have(tmp_path: Path) -> None:
    """A kill between the saves of two runs leaves one of them ahead."""
    team = [tmp_path / "ahead", tmp_path / "behind"]
    for run, names in zip(team, (["001", "002", "003"], ["001", "002"]), strict=True):
        run.mkdir()
        for name in names:
            save(run, name)
    for run in team:
        checkpoint, _ = newest_good(run, 1, team)
        assert checkpoint is not None and checkpoint.facts["env_steps"] == 2
    save(team[0], "004")  # it went on alone: no checkpoint is shared any more
    checkpoint, _ = newest_good(team[0], 1, team)
    assert checkpoint is not None and checkpoint.facts["env_steps"] == 4


def test_what_is_committed_is_never_overwritten(tmp_path: Path) -> None:
    """A run that is stopped twice at one step has two checkpoints of that step."""
    for _ in range(3):
        save(tmp_path, "005")
    assert [path.name for path in list_checkpoints(tmp_path)] == ["005-002", "005-001"]
    save(tmp_path, "006")
    assert [path.name for path in list_checkpoints(tmp_path)] == ["006", "005-002"]


def test_damaged_newer_checkpoints_are_removed_when_an_older_one_is_taken_up(
    tmp_path: Path,
) -> None:
    """Else they would count among those that are kept."""
    older, newer = save(tmp_path, "001"), save(tmp_path, "002")
    remove_newer(older)
    assert list_checkpoints(tmp_path) == [older] and not newer.exists()


def test_run_without_checkpoint_starts_anew(tmp_path: Path) -> None:
    assert newest_good(tmp_path, 1) == (None, [])


@pytest.mark.parametrize("file", ["seed-0.safetensors", "manifest.json"])
def test_every_flipped_byte_and_every_cut_is_seen(tmp_path: Path, file: str) -> None:
    """At each decile of the file; the message names the file, and the one before is used."""
    save(tmp_path, "001")
    path = save(tmp_path, "002") / file
    content = path.read_bytes()
    for decile in range(10):
        position = len(content) * decile // 10
        flipped = bytearray(content)
        flipped[position] ^= 0x10
        for damaged in (bytes(flipped), content[:position]):
            path.write_bytes(damaged)
            with pytest.raises(Damaged, match=file):
                load_checkpoint(path.parent)
            checkpoint, complaints = newest_good(tmp_path, 1)
            assert checkpoint is not None
            assert checkpoint.facts["env_steps"] == 1
            assert file in complaints[0]


@pytest.mark.parametrize(
    ("old", "new"), [(b" ", b"\t"), (b"{", b"\xef\xbb\xbf{"), (b"1e-07", b"1E-07"), (b"}", b"}\n")]
)
def test_changes_that_leave_the_content_are_seen(tmp_path: Path, old: bytes, new: bytes) -> None:
    """Every byte of a manifest counts, not only what it says."""
    facts = start_facts({"config": {}}) | {"wall_seconds": 1e-7}
    path = save_checkpoint(tmp_path, "001", facts, ARRAYS) / "manifest.json"
    content = path.read_bytes()
    changed = content.replace(old, new, 1)
    assert json.loads(changed) == json.loads(content) and changed != content
    path.write_bytes(changed)
    with pytest.raises(Damaged, match=r"manifest\.json is damaged"):
        load_checkpoint(path.parent)


def test_no_intact_checkpoint_stops_with_a_sentence(tmp_path: Path) -> None:
    path = save(tmp_path, "001")
    (path / "seed-0.safetensors").unlink()
    with pytest.raises(InputError, match="no intact checkpoint"):
        newest_good(tmp_path, 1)


def test_a_training_that_goes_on_is_not_taken_for_damage(tmp_path: Path) -> None:
    """Checkpoints come and go while they are verified."""
    content = {"config": {"env": {"id": "none"}, "seeds": [0]}}
    write_config(tmp_path, content)
    save(tmp_path, "001")
    program = (
        "import sys, itertools; from pathlib import Path; from test_checkpoint import save\n"
        "for n in itertools.count(2): save(Path(sys.argv[1]), f'{n:09d}')"
    )
    path = os.pathsep.join([str(Path(__file__).parent), import_path()])
    command = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(command, env=os.environ | {"PYTHONPATH": path}) as writer:
        try:
            wait_for(lambda: len(list_checkpoints(tmp_path)) > 1, writer)
            found = [verify_run(tmp_path) for _ in range(200)]
            assert writer.poll() is None
        finally:
            writer.kill()
    assert [problems for problems, _ in found if problems] == []
    assert all("resumes from" in outcome for _, outcome in found)


def test_unfinished_checkpoint_is_not_one(tmp_path: Path) -> None:
    save(tmp_path, "001")
    (tmp_path / "checkpoints" / ".writing-002").mkdir()
    assert [path.name for path in list_checkpoints(tmp_path)] == ["001"]


def rewrite_manifest(path: Path, change: dict[str, object]) -> None:
    """A manifest whose own hash is right: somebody made it on purpose."""
    manifest = json.loads((path / "manifest.json").read_text()) | change
    manifest["sha256"] = json_hash(manifest)
    (path / "manifest.json").write_bytes(manifest_bytes(manifest))


@pytest.mark.parametrize("name", ["../../secret", "/etc/passwd", "a/b"])
def test_manifest_cannot_name_files_elsewhere(tmp_path: Path, name: str) -> None:
    path = save(tmp_path, "001")
    rewrite_manifest(path, {"files": {name: {"size": 1, "sha256": ""}}})
    with pytest.raises(Damaged, match="outside"):
        load_checkpoint(path)


def test_links_pickles_and_huge_files_are_refused(tmp_path: Path) -> None:
    path = save(tmp_path, "001")
    file = path / "seed-0.safetensors"
    content = file.read_bytes()
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Damaged, match="plain file"):
        load_checkpoint(path)
    file.unlink()
    with file.open("wb") as sparse:
        sparse.truncate(2**40)
    with pytest.raises(Damaged, match="1099511627776 bytes, not 156"):
        load_checkpoint(path)
    file.write_bytes(b"\x80\x04" + content[2:])  # how a pickle starts
    with pytest.raises(Damaged, match="hash"):
        load_checkpoint(path)


def test_disk_error_leaves_the_checkpoint_before(tmp_path: Path) -> None:
    save(tmp_path, "001")
    blocked = tmp_path / "checkpoints" / "002"
    blocked.write_text("a file in the way")  # renaming a folder onto it fails
    with pytest.raises(RunError, match="intact"):
        save(tmp_path, "002")
    assert not list((tmp_path / "checkpoints").glob(".writing-*"))
    checkpoint, _ = newest_good(tmp_path, 1)
    assert checkpoint is not None
    assert checkpoint.facts["env_steps"] == 1


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    """Another process holds the folder; when it is killed, the folder is free."""
    code = (
        "import sys, signal, pathlib\n"
        "from lfiw.runs.lock import locked\n"
        "with locked(pathlib.Path(sys.argv[1])):\n"
        "    print('held', flush=True)\n"
        "    signal.pause()\n"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(InputError, match="another process"), locked(tmp_path):
        pass
    holder.kill()
    holder.wait()
    with locked(tmp_path):
        pass


def rows(start: int, count: int) -> np.ndarray:
    return np.arange(start, start + 2 * count, dtype=np.float32).reshape(count, 2)


def test_segments_go_back_to_a_checkpoint(tmp_path: Path) -> None:
    """Rows after the checkpoint are cut off and can be written anew."""
    written = Segments(tmp_path, 2)
    written.append(rows(0, 5))
    facts = written.facts()
    written.append(rows(100, 7))
    written.close()
    again = Segments(tmp_path, 2)
    np.testing.assert_array_equal(again.restore(facts, capacity=3), rows(4, 3))
    again.append(rows(10, 1))
    later = again.facts()
    again.close()
    np.testing.assert_array_equal(Segments(tmp_path, 2).restore(later, 100), rows(0, 6))


def test_segments_span_files(tmp_path: Path) -> None:
    written = Segments(tmp_path, 2)
    everything = rows(0, 2 * SEGMENT_ROWS + 10)
    for part in np.array_split(everything, 7):
        written.append(part)
    facts = written.facts()
    written.close()
    assert len(list(tmp_path.iterdir())) == 3
    newest = Segments(tmp_path, 2).restore(facts, SEGMENT_ROWS + 20)
    np.testing.assert_array_equal(newest, everything[-SEGMENT_ROWS - 20 :])


def test_damaged_segment_is_named(tmp_path: Path) -> None:
    written = Segments(tmp_path, 2)
    written.append(rows(0, 50))
    facts = written.facts()
    written.close()
    path = written.path(0)
    content = bytearray(path.read_bytes())
    content[123] ^= 1
    path.write_bytes(content)
    with pytest.raises(Damaged, match=path.name):
        Segments(tmp_path, 2).restore(facts, 50)
    os.truncate(path, 40)
    with pytest.raises(Damaged, match="too short"):
        Segments(tmp_path, 2).restore(facts, 50)


def test_new_segments_replace_what_an_abandoned_start_left(tmp_path: Path) -> None:
    abandoned = Segments(tmp_path, 2)
    abandoned.append(rows(50, 9))
    abandoned.close()
    fresh = Segments(tmp_path, 2)
    fresh.append(rows(0, 4))
    facts = fresh.facts()
    fresh.close()
    np.testing.assert_array_equal(Segments(tmp_path, 2).restore(facts, 9), rows(0, 4))


def test_segments_that_no_checkpoint_needs_are_dropped(tmp_path: Path) -> None:
    """Of 3 segments and 10 rows, the newest SEGMENT_ROWS rows lie in the last two files."""
    written = Segments(tmp_path, 2)
    written.append(rows(0, 3 * SEGMENT_ROWS + 10))
    facts = written.facts()
    written.drop_before(facts, SEGMENT_ROWS)
    written.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "rows-000002.f32",
        "rows-000003.f32",
    ]
    newest = Segments(tmp_path, 2).restore(facts, SEGMENT_ROWS)
    np.testing.assert_array_equal(newest, rows(0, 3 * SEGMENT_ROWS + 10)[-SEGMENT_ROWS:])
