"""One random number for each node, which depends on the node and the seed and on nothing else.

A generator gives the first row of every call the same number, so that whoever asks for one node
at a time gets one number for all of them. Here the number is a hash of the seed and the node's
id: a node has the same number whichever nodes it is asked with, and other nodes have others.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from gnncal.data.arrays import FloatArray, as_numpy
from gnncal.data.errors import InputError, shown

Keys = npt.NDArray[np.uint64]
BY_ID, BY_CALIBRATION_ROW = 0, 1  # numbers of the two have nothing to do with each other
TEXT_KEY = b"gnncal node id"  # texts and whole numbers are different nodes
WHOLE = np.dtype(np.int64)


def node_keys(ids: Any, n_nodes: int) -> Keys:
    """Return one 64-bit key for each id, (n_nodes,); without ids those of the rows 0..n_nodes-1."""
    if ids is None:
        return np.arange(n_nodes, dtype=np.uint64)
    return _check_ids(ids, n_nodes)


def numbers_by_key(keys: Keys, random_state: int) -> FloatArray:
    """Return a number in [0, 1) for each key, (n_nodes,)."""
    return _uniform(keys, random_state, BY_ID)


def numbers_of_calibration_rows(n_nodes: int, random_state: int) -> FloatArray:
    """Return numbers of rows that are no nodes of a graph, so that no id ever has one of them."""
    return _uniform(np.arange(n_nodes, dtype=np.uint64), random_state, BY_CALIBRATION_ROW)


def new_numbers(n_nodes: int) -> FloatArray:
    """Return numbers that were never given before."""
    return np.random.default_rng().random(n_nodes)


def _uniform(keys: Keys, random_state: int, stream: int) -> FloatArray:
    """Hash keys with two words made of the seed; the upper 53 bits are the number."""
    first, second = np.random.SeedSequence([random_state, stream]).generate_state(2, np.uint64)
    return (_mix(_mix(keys + first) ^ second) >> np.uint64(11)) * 2.0**-53


def _mix(keys: Keys) -> Keys:
    """Return a permutation of the 64-bit words in which each bit depends on all (SplitMix64)."""
    keys = keys + np.uint64(0x9E3779B97F4A7C15)
    keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return keys ^ (keys >> np.uint64(31))


def _check_ids(ids: Any, n_nodes: int) -> Keys:
    """Return one 64-bit key for each id."""
    array = _as_array(ids)
    if array.shape != (n_nodes,):
        raise InputError(
            f"ids has shape {array.shape} but probs has {n_nodes} rows; pass one id for each row."
        )
    values, counts = np.unique(array, return_counts=True)
    if values.size != n_nodes:
        raise InputError(
            f"ids has {shown(values[counts > 1][0])} more than once; pass each node once, because "
            "nodes with one id would share one random number."
        )
    if array.dtype.kind in "iu":
        return array.astype(np.uint64)  # negative ones wrap around, which keeps them different
    return np.array([_text_key(text) for text in array.tolist()], dtype=np.uint64)


def _as_array(ids: Any) -> npt.NDArray[Any]:
    """Return ids as an array of whole numbers or of texts."""
    if isinstance(ids, str | bytes | dict | set):
        raise InputError(f"ids is {shown(ids)}; pass a list or an array, one id for each row.")
    array = as_numpy(ids)
    if array.dtype.kind in "iuUS" or array.size == 0:
        return array.astype(WHOLE) if array.size == 0 else array
    if array.dtype.kind in "OT":
        values = array.tolist()
        if array.ndim == 1 and all(isinstance(value, str) for value in values):
            return array.astype(str)
        if array.ndim == 1 and all(
            type(value) is int and -(2**63) <= value < 2**64 for value in values
        ):
            return np.array([value % 2**64 for value in values], dtype=np.uint64)
    raise InputError(
        f"ids has dtype {array.dtype}; expected whole numbers or texts, one for each row."
    )


def _text_key(text: str | bytes) -> int:
    data = text if isinstance(text, bytes) else text.encode(errors="surrogatepass")
    return int.from_bytes(blake2b(data, digest_size=8, key=TEXT_KEY).digest(), "little")
