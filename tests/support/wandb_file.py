"""The records of a .wandb file: a log of LevelDB's form, of W&B's protocol buffers."""

import json
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wandb.proto import wandb_internal_pb2 as pb

FILE_HEADER = struct.Struct("<4sHB")
BLOCK_BYTES = 2**15
CHUNK_HEADER = struct.Struct("<IHB")  # checksum, length, and which part of a record
WHOLE, FIRST, MIDDLE, LAST = 1, 2, 3, 4


def records(path: Path) -> Iterator[pb.Record]:
    content = path.read_bytes()
    assert FILE_HEADER.unpack_from(content)[0] == b":W&B"
    position, record = FILE_HEADER.size, b""
    while position + CHUNK_HEADER.size <= len(content):
        left = BLOCK_BYTES - position % BLOCK_BYTES
        if left < CHUNK_HEADER.size:  # padding
            position += left
            continue
        checksum, length, part = CHUNK_HEADER.unpack_from(content, position)
        start = position + CHUNK_HEADER.size
        chunk = content[start : start + length]
        assert zlib.crc32(chunk, zlib.crc32(bytes([part]))) == checksum
        position = start + length
        record += chunk
        if part in (WHOLE, LAST):
            yield pb.Record.FromString(record)
            record = b""


def entries(items: Any) -> dict[str, Any]:
    """Names, dotted where they are nested, with what their JSON says."""
    return {item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in items}


class WandbFile:
    def __init__(self, path: Path) -> None:
        found = list(records(path))
        self.run = next(own.run for own in found if own.HasField("run"))
        self.config = entries(self.run.config.update)
        self.rows = [entries(own.history.item) for own in found if own.HasField("history")]
        self.summary: dict[str, Any] = {}
        for own in found:
            if own.HasField("summary"):
                self.summary |= entries(own.summary.update)
        self.exit_codes = [own.exit.exit_code for own in found if own.HasField("exit")]
        self.metrics = [own.metric for own in found if own.HasField("metric")]

    def curve(self, tag: str) -> list[tuple[int, Any]]:
        return [(row["env_steps"], row[tag]) for row in self.rows if tag in row]
