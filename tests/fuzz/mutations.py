"""Ways to damage a file: bytes at random, or values that fit the format and make no sense."""

import io
import json
import struct
import zipfile

import numpy as np
from safetensors.numpy import load as read_tensors
from safetensors.numpy import save as to_bytes

from tests.test_persistence import signed

ODD_NUMBERS = (0, -1, 1, 2**31, 2**63 - 1, -(2**63))
ODD_FLOATS = (np.nan, np.inf, -np.inf, 1e300, -1.0, 0.0)
ODD_JSON = (None, True, -1, 0, 10**400, 2e9, float("nan"), "x", [], {}, [[]], {"tensor": "x"})


def mutate_bytes(content, generator):
    """Flip bits, cut, or repeat a part."""
    damaged, kind = bytearray(content), generator.integers(4)
    at = int(generator.integers(len(content)))
    if kind < 2:
        for _ in range(1 + 7 * kind):
            damaged[int(generator.integers(len(content)))] ^= 1 << int(generator.integers(8))
        return bytes(damaged)
    if kind == 2:
        return content[:at]
    return content[:at] + content[max(0, at - 50) : at] + content[at:]


def mutate_array(array, generator):
    """Another value, order, shape or type in one array."""
    changed, kind = np.array(array), generator.integers(7)
    if kind == 0 and changed.size:
        odd = ODD_FLOATS if changed.dtype.kind == "f" else ODD_NUMBERS
        value = odd[generator.integers(len(odd))]
        if changed.dtype.kind in "fiu":
            with np.errstate(all="ignore"):
                changed.flat[generator.integers(changed.size)] = np.array(value).astype(
                    changed.dtype
                )
        return changed
    if kind == 1:
        return changed[: generator.integers(len(changed) + 1)] if changed.ndim else changed
    if kind == 2:
        return np.concatenate([changed, changed]) if changed.ndim else changed
    if kind == 3:
        return changed.T if changed.ndim > 1 else changed[..., None]
    if kind == 4:
        types = ("bool", "int8", "uint64", "float16", "float32", "complex64")
        kind_of = types[generator.integers(len(types))]
        with np.errstate(all="ignore"):
            return changed.astype(kind_of) if changed.dtype.kind in "fiub" else changed
    if kind == 5:
        return generator.permutation(changed) if changed.ndim else changed
    raw = bytearray(changed.tobytes())
    if not raw:
        return changed
    raw[int(generator.integers(len(raw)))] ^= 1 << int(generator.integers(8))
    return np.frombuffer(bytes(raw), changed.dtype).reshape(changed.shape)


def mutate_bundle(arrays, generator):
    """An .npz file with one or two arrays changed, its checksums right; or damaged bytes."""
    kind = generator.integers(10)
    changed = dict(arrays)
    if 1 <= kind < 9:
        for _ in range(1 + kind % 2):
            name = list(changed)[generator.integers(len(changed))]
            changed[name] = mutate_array(changed[name], generator)
    elif kind == 9:
        del changed[list(changed)[generator.integers(len(changed))]]
    buffer = io.BytesIO()
    np.savez(buffer, **changed)
    if kind == 0:
        return mutate_bytes(buffer.getvalue(), generator)
    if kind == 1:
        return _with_another_header(buffer.getvalue(), generator)
    return buffer.getvalue()


def _with_another_header(content, generator):
    """The same archive, right checksums, with a digit in the header of one array changed."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as archive, zipfile.ZipFile(out, "w") as copy:
        names = archive.namelist()
        chosen = names[generator.integers(len(names))]
        for name in names:
            member = archive.read(name)
            if name == chosen:
                digits = [
                    i for i in range(10, min(100, len(member))) if member[i : i + 1].isdigit()
                ]
                at = digits[generator.integers(len(digits))]
                digit = str(generator.integers(10)).encode()
                member = member[:at] + digit + member[at + 1 :]
            copy.writestr(name, member)
    return out.getvalue()


def mutate_calibrator(content, generator):
    """A saved calibrator with a value of its header or a tensor changed and signed, or bytes."""
    kind = generator.integers(8)
    if kind == 0:
        return mutate_bytes(content, generator)
    (size,) = struct.unpack("<Q", content[:8])
    header = json.loads(json.loads(content[8 : 8 + size])["__metadata__"]["gnncal"])
    tensors = read_tensors(content)
    if kind < 4 and tensors:
        name = list(tensors)[generator.integers(len(tensors))]
        changed = mutate_array(tensors[name], generator)
        if changed.dtype.kind in "biuf":
            tensors[name] = np.ascontiguousarray(changed)
    else:
        _change_leaf(header, generator)
    return signed(to_bytes(tensors, metadata={"gnncal": json.dumps(header)}))


def _change_leaf(header, generator):
    """Put an odd value, or another number of about the same size, somewhere in the document."""
    places = []

    def collect(value):
        keys = value if isinstance(value, dict) else range(len(value))
        for key in keys:
            if key == "checksum":
                continue
            places.append((value, key))
            if isinstance(value[key], dict | list):
                collect(value[key])

    collect(header)
    container, key = places[generator.integers(len(places))]
    old = container[key]
    if type(old) in (int, float) and generator.random() < 0.5:
        container[key] = type(old)(old * generator.choice([-1, 2, 10, 100]))
    else:
        container[key] = ODD_JSON[generator.integers(len(ODD_JSON))]
