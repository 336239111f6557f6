"""A key that only this user on this machine has: what is signed with it was made here."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from lfiw.errors import Damaged
from lfiw.plain_files import open_plain

KEY_BYTES = 32


def key_path() -> Path:
    state = Path(os.environ.get("XDG_STATE_HOME", ""))
    folder = state if state.is_absolute() else Path("~/.local/state").expanduser()
    return folder / "lfiw" / "key"


def signature(purpose: str, content: bytes) -> str:
    """Of this user, made with the key, which is created when it is first needed; empty where no
    key can be kept. What is signed for one purpose is not signed for another."""
    with suppress(OSError, RuntimeError, Damaged):  # RuntimeError: there is no home
        path = key_path()
        if not path.exists():
            _create(path)
        return _signed(_read(path), purpose, content)
    return ""


def is_signed(claimed: object, purpose: str, content: bytes) -> bool:
    with suppress(OSError, RuntimeError, Damaged):
        expected = _signed(_read(key_path()), purpose, content)
        return isinstance(claimed, str) and hmac.compare_digest(claimed.encode(), expected.encode())
    return False


def _signed(key: bytes, purpose: str, content: bytes) -> str:
    return hmac.new(key, purpose.encode() + b"\0" + content, hashlib.sha256).hexdigest()


def _create(path: Path) -> None:
    """Whole or not at all, and once: of several processes, the first one's key is everybody's."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    own = path.with_name(f".key-{secrets.token_hex(8)}")
    try:
        handle = os.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_bytes(KEY_BYTES))
            file.flush()
            os.fsync(handle)
        with suppress(FileExistsError):
            os.link(own, path)
    finally:
        own.unlink(missing_ok=True)


def _read(path: Path) -> bytes:
    """A key that somebody else may know or may have put there is none."""
    with open_plain(path, KEY_BYTES) as file:
        status = os.fstat(file.fileno())
        private = status.st_uid == os.geteuid() and not stat.S_IMODE(status.st_mode) & 0o077
        key = file.read(KEY_BYTES)
    if not private or len(key) != KEY_BYTES:
        raise Damaged(f"{path} is not a key that only its user can read.")
    return key
