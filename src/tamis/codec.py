"""Objects as one file of JSON and arrays: versioned, with a checksum, written completely or not at all, no pickle.

A file is a zip archive of ``manifest.json`` (kind, version, checksum), ``content.json`` and one ``.npy`` entry per
array. Classes whose objects may be written are marked with `stored` and identified by their name; reading creates
objects of these classes only.
"""

from __future__ import annotations

import io
import json
import math
import os
import stat
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from enum import Enum
from hashlib import sha256
from pathlib import Path
from typing import IO, Any, TypeVar
from uuid import uuid4

import numpy as np

import tamis

VERSION = 1
STORED: dict[str, type] = {}
MAX_BYTES = 1 << 30  # that a file may unpack to
COMPRESSED_BYTES = 1 << 26  # larger content is not compressed
MAX_RATIO = 64  # of the unpacked bytes above `COMPRESSED_BYTES` to the size of the file
MAX_JSON_BYTES = 1 << 25
MAX_JSON_OBJECTS = 1 << 20  # dicts and lists
ARRAY_KINDS = "biufUS"  # of numpy types that a file may contain
ENTRY_TIME = (1980, 1, 1, 0, 0, 0)  # the same for all files: equal content gives equal files

C = TypeVar("C", bound=type)


class Unreadable(ValueError):
    """Raised for a file that is damaged, hostile, of another kind or of another version of the format."""


def stored(cls: C) -> C:
    """Mark a class whose objects may be written to files, under the name of the class.

    For dataclasses, enums, named tuples and classes with ``to_stored()`` and ``from_stored(dict)``.
    """
    known = STORED.setdefault(cls.__name__, cls)
    if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
        raise TypeError(f"two classes named {cls.__name__!r} cannot both be stored: rename one")
    STORED[cls.__name__] = cls
    return cls


def is_stored(cls: type) -> bool:
    """Whether objects of a class may be written to files."""
    return STORED.get(cls.__name__) is cls


# ---------------------------------------------------------------------- values


class Encoding:
    """Values as JSON, and a list of their arrays.

    Parameters
    ----------
    strict : whether to refuse objects that cannot be read back; otherwise their `repr` is written
    """

    def __init__(self, *, strict: bool = True):
        self.strict = strict
        self.arrays: list[np.ndarray] = []

    def encode(self, value: Any) -> Any:
        """Return a JSON value that refers to arrays by number."""
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or type(value) in (bool, int, str):
            return value
        if isinstance(value, float):
            return value if np.isfinite(value) else {"$": "float", "value": repr(value)}
        if isinstance(value, np.ndarray):
            return self._array(value)
        if isinstance(value, dict) and all(type(key) is str and key != "$" for key in value):
            return {key: self.encode(v) for key, v in value.items()}
        if isinstance(value, dict):
            return {"$": "dict", "items": [[self.encode(k), self.encode(v)] for k, v in value.items()]}
        if type(value) is list:
            return [self.encode(v) for v in value]
        if type(value) is tuple:
            return {"$": "tuple", "items": [self.encode(v) for v in value]}
        return self._object(value)

    def _array(self, value: np.ndarray) -> Any:
        if value.dtype == object:
            return {
                "$": "objects",
                "shape": list(value.shape),
                "items": [self.encode(v) for v in value.ravel().tolist()],
            }
        if value.dtype.kind not in ARRAY_KINDS:
            raise ValueError(f"an array of the type {value.dtype} cannot be written to a file")
        self.arrays.append(value)
        return {"$": "array", "index": len(self.arrays) - 1}

    def _object(self, value: Any) -> Any:
        cls = type(value)
        if is_stored(cls):
            return {
                "$": "object",
                "type": cls.__name__,
                "parts": {k: self.encode(v) for k, v in _fields(value).items()},
            }
        if self.strict:
            raise ValueError(
                f"{value!r} is of the type {cls.__name__}, which a file cannot hold: use text or numbers, or mark your "
                "own dataclass with tamis.io.stored"
            )
        return {"$": "words", "value": repr(value)}


def _fields(value: Any) -> dict[str, Any]:
    if hasattr(value, "to_stored"):
        return value.to_stored()
    if isinstance(value, Enum):
        return {"name": value.name}
    if isinstance(value, tuple):
        return value._asdict()  # type: ignore[attr-defined]
    if not is_dataclass(value):
        raise ValueError(f"{type(value).__name__} is neither a dataclass nor has to_stored()")
    return {field.name: getattr(value, field.name) for field in fields(value) if field.init}


def decode(value: Any, arrays: list[np.ndarray]) -> Any:
    """Return the value that `Encoding.encode` was given."""
    if isinstance(value, list):
        return [decode(v, arrays) for v in value]
    if not isinstance(value, dict):
        return value
    if "$" not in value:
        return {key: decode(v, arrays) for key, v in value.items()}
    return _DECODERS[value["$"]](value, arrays)


def _decode_objects(value: dict, arrays: list[np.ndarray]) -> np.ndarray:
    out = np.empty(len(value["items"]), dtype=object)
    out[:] = [decode(v, arrays) for v in value["items"]]
    return out.reshape(value["shape"])


def _decode_object(value: dict, arrays: list[np.ndarray]) -> Any:
    cls = STORED[value["type"]]
    parts = {key: decode(v, arrays) for key, v in value["parts"].items()}
    if hasattr(cls, "from_stored"):
        return cls.from_stored(parts)
    return cls[parts["name"]] if issubclass(cls, Enum) else cls(**parts)


_DECODERS: dict[str, Callable[[dict, list[np.ndarray]], Any]] = {
    "float": lambda value, arrays: float(value["value"]),
    "array": lambda value, arrays: arrays[value["index"]],
    "objects": _decode_objects,
    "dict": lambda value, arrays: {decode(k, arrays): decode(v, arrays) for k, v in value["items"]},
    "tuple": lambda value, arrays: tuple(decode(v, arrays) for v in value["items"]),
    "object": _decode_object,
}


def digest(value: Any) -> str:
    """Return a checksum of a value; objects that cannot be stored count by their `repr`."""
    return _checksum(*_parts(value, strict=False))


def plain_labels(labels: np.ndarray) -> np.ndarray:
    """Return labels of rows, with text instead of dates and other types that a file cannot contain."""
    if labels.dtype != object:
        return labels
    out = np.empty(len(labels), dtype=object)
    out[:] = [_plain_label(v) for v in labels]
    return out


def _plain_label(label: Any) -> Any:
    if isinstance(label, tuple):
        parts = map(_plain_label, label)
        return str(tuple(v.item() if isinstance(v, np.generic) else v for v in parts))
    return label if label is None or isinstance(label, str | bool | int | float | np.number) else str(label)


def _parts(value: Any, *, strict: bool = True) -> tuple[bytes, list[bytes]]:
    encoding = Encoding(strict=strict)
    content = json.dumps(encoding.encode(value), ensure_ascii=False, allow_nan=False)
    return content.encode("utf-8", "surrogatepass"), [_npy(array) for array in encoding.arrays]


def _npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, np.ascontiguousarray(array).reshape(array.shape), allow_pickle=False)
    return file.getvalue()


def _checksum(content: bytes, arrays: list[bytes]) -> str:
    return sha256(b"".join(sha256(part).digest() for part in (content, *arrays))).hexdigest()


# ---------------------------------------------------------------------- files


@contextmanager
def replacing(path: str | os.PathLike) -> Iterator[Path]:
    """Yield a temporary path in the same folder; rename it to `path` at the end, and remove it on any failure.

    Symbolic links and the permissions of an existing file are kept.
    """
    path = Path(os.path.realpath(path))
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {str(path.parent)!r} to write {path.name!r} to")
    there = path.exists()
    if path.is_dir():
        raise IsADirectoryError(f"{str(path)!r} is a folder: name a file in it to write to")
    if there and not path.is_file():
        raise OSError(
            f"{str(path)!r} is a device or a pipe, and a file is replaced as a whole: name a file to write to"
        )
    temporary = path.with_name(f".{path.name}.{uuid4().hex[:12]}.part")
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())  # a full disk may be reported only now
        if there:
            temporary.chmod(stat.S_IMODE(path.stat().st_mode))
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write(path: str | os.PathLike, kind: str, value: Any) -> None:
    """Write one object to a file of the given kind."""
    content, arrays = _parts(value)
    manifest = {
        "kind": kind,
        "version": VERSION,
        "tamis": tamis.__version__,
        "arrays": len(arrays),
        "sha256": _checksum(content, arrays),
    }
    entries = {"manifest.json": json.dumps(manifest).encode(), "content.json": content}
    entries |= {f"arrays/{k}.npy": array for k, array in enumerate(arrays)}
    size = sum(map(len, entries.values()))
    _check_size(str(path), size, MAX_BYTES, content)
    method = zipfile.ZIP_DEFLATED if size <= COMPRESSED_BYTES else zipfile.ZIP_STORED
    with replacing(path) as temporary, zipfile.ZipFile(temporary, "w", method) as file:
        for name, data in entries.items():
            file.writestr(zipfile.ZipInfo(name, ENTRY_TIME), data, method)


def read(path: str | os.PathLike, kind: str) -> Any:
    """Read a file of `write`; raise `Unreadable`, a ValueError, for any other file.

    Reading runs no code but that of the stored classes, whoever made the file, and requires memory in proportion to its
    size, plus a few hundred megabytes.
    """
    name = str(path)
    if not Path(path).exists():
        raise FileNotFoundError(f"there is no file {name!r}")
    if not Path(path).is_file():
        raise Unreadable(f"{name!r} is not a file")
    with Path(path).open("rb") as raw:
        try:
            manifest, content, arrays = _unpacked(raw, name, kind)
        except Unreadable:
            raise
        except Exception as error:  # zipfile raises nearly anything
            raise Unreadable(f"{name!r} is not a tamis {kind} file, or it is truncated or damaged") from error
    try:
        return decode(json.loads(content.decode("utf-8", "surrogatepass")), arrays)
    except Exception as error:  # stored values may have any type
        words = f"written by tamis {manifest.get('tamis', 'of an unknown version')}, and this version cannot read it"
        raise Unreadable(f"{name!r} was {words} ({type(error).__name__}: {error})") from error


def _unpacked(raw: IO[bytes], name: str, kind: str) -> tuple[dict[str, Any], bytes, list[np.ndarray]]:
    """Return manifest, content and arrays of an archive that agrees with its manifest."""
    with zipfile.ZipFile(raw) as file:
        packed, size = os.fstat(raw.fileno()).st_size, sum(entry.file_size for entry in file.infolist())
        _check_size(name, size, min(MAX_BYTES, COMPRESSED_BYTES + MAX_RATIO * packed))
        if any(entry.compress_type not in (zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED) for entry in file.infolist()):
            raise ValueError("it is packed in a way that takes memory without bounds")
        if len(set(file.namelist())) < len(file.namelist()):
            raise ValueError("two entries have one name")
        manifest = _checked_manifest(json.loads(file.read("manifest.json")), name, kind)
        content = file.read("content.json")
        _check_size(name, size, MAX_BYTES, content)
        arrays, digests = [], [sha256(content).digest()]
        for k in range(manifest["arrays"]):
            data = file.read(f"arrays/{k}.npy")
            digests.append(sha256(data).digest())
            arrays.append(_array(data))
    if sha256(b"".join(digests)).hexdigest() != manifest["sha256"]:
        raise Unreadable(f"{name!r} is damaged: its content does not match its checksum")
    return manifest, content, arrays


def _check_size(name: str, size: int, max_bytes: int, content: bytes = b"") -> None:
    """Refuse entries of more than `max_bytes`, and JSON of too many objects."""
    if size > max_bytes:
        raise Unreadable(f"{name!r} would unpack to {size} bytes, and at most {max_bytes} are read")
    objects = content.count(b"[") + content.count(b"{")
    if len(content) > MAX_JSON_BYTES or objects > MAX_JSON_OBJECTS:
        raise Unreadable(
            f"{name!r} would contain {len(content)} bytes of JSON with {objects} lists and dicts, and at most "
            f"{MAX_JSON_BYTES} bytes with {MAX_JSON_OBJECTS} are read"
        )


def array_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Read the shape of an array in a file of numpy, whether its columns come first, and its type."""
    version = np.lib.format.read_magic(file)
    header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    return header(file)


def _array(data: bytes) -> np.ndarray:
    """Return an array; the shape in its header must fit the size of its entry."""
    file = io.BytesIO(data)
    shape, columns_first, dtype = array_header(file)
    if dtype.kind not in ARRAY_KINDS or not dtype.itemsize:
        raise ValueError(f"an array of the type {dtype} cannot be in a file")
    if math.prod(shape) * dtype.itemsize != len(data) - file.tell() or math.prod(max(n, 1) for n in shape) > MAX_BYTES:
        raise ValueError(f"an array of shape {shape} does not fit its entry")
    return np.ndarray(shape, dtype, data, file.tell(), order="F" if columns_first else "C").copy(order="K")


def _checked_manifest(manifest: Any, name: str, kind: str) -> dict[str, Any]:
    types = {"kind": str, "version": int, "arrays": int, "sha256": str}
    if not isinstance(manifest, dict) or any(type(manifest.get(key)) is not cls for key, cls in types.items()):
        raise Unreadable(f"{name!r} is not a tamis {kind} file")
    if manifest["version"] != VERSION:
        raise Unreadable(
            f"{name!r} has the format {manifest['version']}, and this tamis reads the format {VERSION}: install the "
            "version of tamis that wrote the file, or save the model again"
        )
    if manifest["kind"] != kind:
        raise Unreadable(f"{name!r} is a tamis {manifest['kind']} file, not a {kind} file")
    return manifest
