"""The seal holds exactly as long as every byte is as it was written."""

import hashlib
import json

import pytest

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


def test_the_digest_is_the_sha256_of_the_file_with_zeros_in_its_place() -> None:
    sealed = seal(CONTENT)
    check_seal(sealed)
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


def test_every_truncation_and_bytes_added_at_either_end_break_the_seal() -> None:
    sealed = seal(CONTENT)
    for length in range(len(sealed)):
        with pytest.raises(DamagedError):
            check_seal(sealed[:length])
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


def test_a_text_that_looks_like_a_seal_does_not_pass_for_it() -> None:
    imitation = with_blank_seal('{"a":1}').encode()
    content = imitation + with_blank_seal(json.dumps({"error": imitation.decode()})).encode()
    sealed = seal(content)
    check_seal(sealed)
    assert sealed.startswith(imitation)


@pytest.mark.parametrize(
    ("version", "turned", "error", "message"),
    [
        (7, b'"a":1', NewerFormatError, f"format 7, and this robench reads formats up to {LATEST_FORMAT}"),
        (7, b'"a":2', DamagedError, "changed after"),
        (0, b'"a":1', DamagedError, "never was"),
    ],
    ids=["later", "later and changed", "never was"],
)
def test_an_unknown_format_is_newer_where_its_seal_holds(
    version: int, turned: bytes, error: type[Exception], message: str
) -> None:
    content = seal(with_blank_seal('{"a":1}', version).encode())
    with pytest.raises(error, match=message):
        check_seal(content.replace(b'"a":1', turned))
