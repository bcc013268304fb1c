"""The seal holds exactly as long as every byte is as it was written."""

from __future__ import annotations

import hashlib
import json
import random

import pytest

from robench.store import sealed as seal_module
from robench.store.sealed import (
    FORMAT_VERSION,
    LATEST_FORMAT,
    DamagedError,
    NewerFormatError,
    check_seal,
    seal,
    with_blank_seal,
)

CONTENT = b"\x00head" + with_blank_seal('{"name":"digits"}').encode() + b"tail\xff"


def test_a_sealed_file_passes_and_has_the_length_that_it_had() -> None:
    sealed = seal(CONTENT)
    check_seal(sealed)
    assert len(sealed) == len(CONTENT)


def test_the_digest_is_the_sha256_of_the_file_with_zeros_in_its_place() -> None:
    sealed = seal(CONTENT)
    digest = hashlib.sha256(CONTENT).hexdigest().encode()
    assert sealed == CONTENT.replace(b"0" * 64, digest)


def test_the_sealed_text_is_still_json_with_its_members() -> None:
    members = json.loads(with_blank_seal('{"name":"digits"}'))
    assert members == {"name": "digits", "format": FORMAT_VERSION, "sha256": "0" * 64}


def test_every_single_flipped_bit_breaks_the_seal() -> None:
    sealed = seal(CONTENT)
    for place in range(len(sealed)):
        for bit in range(8):
            flipped = bytearray(sealed)
            flipped[place] ^= 1 << bit
            with pytest.raises(DamagedError):
                check_seal(bytes(flipped))


def test_every_truncation_breaks_the_seal() -> None:
    sealed = seal(CONTENT)
    for length in range(len(sealed)):
        with pytest.raises(DamagedError):
            check_seal(sealed[:length])


def test_bytes_added_at_either_end_break_the_seal() -> None:
    for changed in (seal(CONTENT) + b"\n", b"\n" + seal(CONTENT)):
        with pytest.raises(DamagedError, match="changed after they were written"):
            check_seal(changed)


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"", "empty"), (b"PAR1", "cut off"), (b"\x00" * 5000, "cut off"), (b'"format":1,"sha256":"short"}', "cut off")],
)
def test_what_was_never_sealed_is_damaged_and_says_how(content: bytes, reason: str) -> None:
    with pytest.raises(DamagedError, match=reason):
        check_seal(content)


def test_random_bytes_are_damaged() -> None:
    generator = random.Random(0)
    for _ in range(200):
        with pytest.raises(DamagedError):
            check_seal(generator.randbytes(generator.randrange(400)))


def test_a_text_that_looks_like_a_seal_does_not_pass_for_it() -> None:
    imitation = with_blank_seal('{"a":1}').encode()
    content = imitation + with_blank_seal(json.dumps({"error": imitation.decode()})).encode()
    sealed = seal(content)
    check_seal(sealed)
    assert sealed.startswith(imitation)


def test_a_later_format_with_a_whole_seal_is_newer_and_not_damaged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seal_module, "FORMAT_VERSION", 7)
    newer = seal(with_blank_seal('{"a":1}').encode())
    monkeypatch.undo()
    with pytest.raises(NewerFormatError, match=f"format 7, and this robench reads formats up to {LATEST_FORMAT}"):
        check_seal(newer)


def test_a_later_format_with_a_broken_seal_is_damaged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seal_module, "FORMAT_VERSION", 7)
    newer = seal(with_blank_seal('{"a":1}').encode())
    monkeypatch.undo()
    with pytest.raises(DamagedError):
        check_seal(newer.replace(b'"a":1', b'"a":2'))


def test_a_format_that_never_was_is_damaged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seal_module, "FORMAT_VERSION", 0)
    odd = seal(with_blank_seal('{"a":1}').encode())
    monkeypatch.undo()
    with pytest.raises(DamagedError, match="never was"):
        check_seal(odd)
