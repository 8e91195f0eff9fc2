"""Files that were damaged by chance, or by someone who knows the format and mends the checksums."""

from __future__ import annotations

import io
import json
import zipfile
from hashlib import sha256

import numpy as np

NUMBERS = [0, -1, 1, 2**31, 2**63, -(2**63) - 1, 10**400, 0.0, -0.0, 1e308, 5e-324, 1e400, float("nan"), True, False]
TEXTS = [
    "",
    "x",
    "$",
    "\ud800",
    "\x00",
    "a" * 10_000,
    "__class__",
    "nan",
    "CONVERGED",
    "../../etc/passwd",
    "{0.__init__}",
]
TYPES = [
    "KernelModel",
    "AdditiveModel",
    "Cells",
    "Curve",
    "Surface",
    "Cases",
    "Gaussian",
    "KernelBank",
    "Channel",
    "Number",
    "Nominal",
    "Encoder",
    "Statistics",
]
TYPES += ["Results", "KernelExpansion", "CodedExpansion", "Precomputed", "Repaired", "Aligned", "Plan", "Chebyshev"]
TYPES += [
    "Status",
    "Interval",
    "TamisClassifier",
    "Whole",
    "Normalised",
    "Position",
    "Levels",
    "nothing",
    "object",
    "eval",
]
HEADERS = ["'<f8'", "'|O'", "'<U0'", "'|V8'", "'<M8[D]'", "[('a', '<f8')]", "'<U100000000'"]
DTYPES = ["f8", "f4", ">f8", "i8", "u1", "?", "U3", "S2", "f2"]


def entries_of(data: bytes) -> dict[str, bytes]:
    """The entries of an archive."""
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return {name: file.read(name) for name in file.namelist()}


def packed(entries: dict[str, bytes], *, sealed: bool = True, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """An archive of these entries, with the right checksum and number of arrays if `sealed`."""
    entries = dict(entries)
    if sealed:
        arrays = [entries[f"arrays/{k}.npy"] for k in range(len(entries)) if f"arrays/{k}.npy" in entries]
        digests = [sha256(part).digest() for part in (entries["content.json"], *arrays)]
        manifest = json.loads(entries["manifest.json"])
        manifest |= {"arrays": len(arrays), "sha256": sha256(b"".join(digests)).hexdigest()}
        entries["manifest.json"] = json.dumps(manifest).encode()
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return file.getvalue()


def npy(array: np.ndarray) -> bytes:
    """An array as an entry."""
    file = io.BytesIO()
    np.lib.format.write_array(file, array, allow_pickle=True)
    return file.getvalue()


def forged(descr: str, shape: tuple, body: bytes = b"") -> bytes:
    """An entry whose header says whatever it likes."""
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape!r}, }}".encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + body


def nested(depth: int) -> bytes:
    """JSON as deep as that."""
    return b'{"$":"tuple","items":[' * depth + b"]}" * depth


# ---------------------------------------------------------------------- mutations, driven by a random.Random


def flipped(data: bytes, rng) -> bytes:
    """A few bytes changed."""
    out = bytearray(data)
    for _ in range(rng.randint(1, 8)):
        out[rng.randrange(len(out))] ^= rng.randint(1, 255)
    return bytes(out)


def cut(data: bytes, rng) -> bytes:
    """A piece taken out, or said twice, or the end missing."""
    a, b = sorted((rng.randrange(len(data)), rng.randrange(len(data))))
    return rng.choice([data[:a], data[a:], data[:a] + data[b:], data[:b] + data[a:], data[:a] + b"\0" * 30 + data[a:]])


def any_value(rng, n_arrays: int):
    """A JSON value to put in place of another."""
    kind = rng.randrange(8)
    if kind == 0:
        return rng.choice(NUMBERS)
    if kind == 1:
        return rng.choice(TEXTS)
    if kind == 2:
        return [rng.choice(NUMBERS) for _ in range(rng.randint(0, 5))]
    if kind == 3:
        return {"$": "array", "index": rng.choice([*range(n_arrays), -1, 10**9, "0", None])}
    if kind == 4:
        parts = {rng.choice(["kernel", "columns", "name", "bandwidth", "plan"]): rng.choice(NUMBERS)}
        return {"$": "object", "type": rng.choice(TYPES), "parts": rng.choice([parts, {}, [], None])}
    if kind == 5:
        return {"$": "objects", "shape": [rng.choice([0, 1, 2, -1, 2**40])], "items": [1.0, None]}
    if kind == 6:
        return {"$": rng.choice(["tuple", "dict", "float", "words", [], {}, None]), "items": [[[1], 2]], "value": "x"}
    return None


def change_json(tree, rng, n_arrays: int):
    """The tree with one value replaced, taken out, moved or said twice, in place."""
    places = []

    def walk(node):
        if isinstance(node, dict | list):
            keys = list(node) if isinstance(node, dict) else range(len(node))
            places.extend((node, key) for key in keys)
            for key in keys:
                walk(node[key])

    walk(tree)
    node, key = places[rng.randrange(len(places))]
    how = rng.randrange(4)
    if how == 0:
        del node[key]
    elif how == 1:
        other, there = places[rng.randrange(len(places))]
        node[key] = json.loads(json.dumps(other[there])) if there in other or isinstance(other, list) else None
    elif how == 2 and isinstance(node, list):
        node.append(node[key])
    else:
        node[key] = any_value(rng, n_arrays)
    return tree


def change_array(data: bytes, rng) -> bytes:
    """An array with other values, another shape or type, or a header that lies."""
    try:
        return _changed(np.lib.format.read_array(io.BytesIO(data), allow_pickle=False), data, rng)
    except Exception:  # it was changed before, and numpy raises nearly anything
        return flipped(data, rng)


def _changed(array: np.ndarray, data: bytes, rng) -> bytes:
    how = rng.randrange(6)
    if how == 0 and array.size:
        array = array.copy()
        flat = array.reshape(-1)
        with np.errstate(all="ignore"):
            flat[rng.randrange(flat.size)] = np.array(rng.choice([-1, 10**9, 0, 1])).astype(array.dtype)
        return npy(array)
    if how == 1 and array.dtype.kind == "f":
        return npy(np.full_like(array, rng.choice([np.nan, np.inf, -np.inf, 1e308, 0.0])))
    if how == 2:
        return npy(np.zeros([rng.randint(0, 4) for _ in range(rng.randint(0, 4))], dtype=rng.choice(DTYPES)))
    if how == 3:
        return npy(array.reshape(-1)[: rng.randint(0, 3)])
    if how == 4:
        shape = tuple(rng.choice([0, 1, -1, 2**31, 2**62]) for _ in range(rng.randint(0, 3)))
        return forged(rng.choice(HEADERS), shape)
    return flipped(data, rng)


def mutant(entries: dict[str, bytes], rng) -> bytes:
    """A file made from the entries of a good one."""
    how = rng.randrange(8)
    if how == 0:
        return flipped(packed(entries), rng)
    if how == 1:
        return cut(packed(entries), rng)
    entries = dict(entries)
    names = [name for name in entries if name.startswith("arrays/")]
    for _ in range(rng.randint(1, 3)):
        if how in (2, 3, 4):
            tree = change_json(json.loads(entries["content.json"]), rng, len(names))
            entries["content.json"] = json.dumps(tree).encode("utf-8", "surrogatepass")
        elif how in (5, 6):
            name = rng.choice(names)
            entries[name] = change_array(entries[name], rng) if len(entries[name]) < 1 << 20 else entries[name]
        elif rng.randrange(2):
            one, two = rng.choice(list(entries)), rng.choice(list(entries))
            entries[one], entries[two] = entries[two], entries[one]
        else:
            name = rng.choice(["content.json", *names])
            entries[name] = flipped(entries[name], rng)
    try:
        return packed(entries)
    except (ValueError, AttributeError, TypeError):  # the manifest was swapped away
        return packed(entries, sealed=False)
