"""Providers of declarations: robench, another distribution, or the user's own code; how robench itself is installed."""

import dataclasses
import shlex
import sys
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from types import ModuleType

from robench.core.errors import DeclarationError, PluginError
from robench.core.library_watch import OWN
from robench.core.plugins import Claim, claims, declared_by
from robench.core.user_code import code_digest, module_of

_PACKAGE = Path(__file__).resolve().parents[1]


def install_command(extra: str) -> str:
    """Return the command that adds an optional part of robench, such as ``ray``, to this installation.

    A clone is installed from its folder, since an index may not have robench; an installed wheel is there already.
    """
    clone = _PACKAGE.parent
    if (clone / "pyproject.toml").is_file():
        return f"pip install --editable {shlex.quote(f'{clone}[{extra}]')}"
    return f"pip install {shlex.quote(f'{OWN}[{extra}]')}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """Distribution, or user's own code, that provides a declaration.

    Attributes:
        distribution, release: name and version of the distribution; empty for code without one.
        code: SHA-256 of code without a distribution; ``module``: its name.
    """

    distribution: str = ""
    release: str = ""
    code: str = ""
    module: str = ""

    def __str__(self) -> str:
        return f"{self.distribution} {self.release}" if self.distribution else self.module

    @property
    def identity(self) -> dict[str, str]:
        """Return the part of keys that distinguishes declarations of one kind, without their version."""
        return {"distribution": self.distribution} if self.distribution else {"code": self.code}


def provider_of(thing: object) -> Provider | None:
    """Return the provider of a declaration (or its class), dataset or metric; None for robench itself.

    A distribution is identified by an entry point that names the class or object, which gives the same result in every
    process.

    Raises:
        DeclarationError: it belongs to no distribution, and its code is in no file.
    """
    declared = thing if isinstance(thing, type) else type(thing)
    names = (getattr(thing, "kind", None), getattr(thing, "name", None))
    for claim in claims():
        if claim.kind in names and _names(claim, thing, declared):
            return Provider(distribution=claim.distribution, release=claim.release)
    module = str(getattr(thing, "implementation", "")).partition(":")[0] if is_own(declared) else declared.__module__
    if not module or module.partition(".")[0] == OWN or (isinstance(thing, type) and is_own(declared)):
        return None
    return Provider(code=_digest_of(sys.modules.get(module) or module_of(module)), module=module)


def is_own(declared: type) -> bool:
    """Return whether a class is robench's."""
    return declared.__module__.partition(".")[0] == OWN


def title_of(noun: str, thing: object, name: str) -> str:
    """Return the name of a plug-in for messages, with its distribution or module unless that is robench."""
    provider = provider_of(thing)
    return f"{noun} {name!r}" if provider is None else f"{noun} {name!r} of {provider}"


def releases_of(*things: object) -> dict[str, str]:
    """Return the version of every distribution that provides one of these declarations or a nested one."""
    releases: dict[str, str] = {}
    for thing in things:
        for nested in nested_in(thing):
            provider = provider_of(nested)
            if provider is not None and provider.distribution:
                releases[provider.distribution] = provider.release
    return releases


def nested_in(thing: object) -> Iterator[object]:
    """Yield a declaration and all declarations nested in it."""
    if isinstance(thing, (tuple, list)):
        for item in thing:
            yield from nested_in(item)
    elif isinstance(thing, Mapping):
        for item in thing.values():
            yield from nested_in(item)
    elif dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        yield thing
        for field in dataclasses.fields(thing):
            yield from nested_in(getattr(thing, field.name))


def foreign_in(thing: object) -> object | None:
    """Return the first of a declaration and its nested ones that is not robench's; None if all are."""
    return next((nested for nested in nested_in(thing) if provider_of(nested) is not None), None)


def _names(claim: Claim, thing: object, declared: type) -> bool:
    try:
        member = declared_by(claim)
    except PluginError:
        return False
    return member is declared or (not isinstance(member, type) and type(member) is declared and member == thing)


@lru_cache(maxsize=1024)
def _digest_of(module: ModuleType) -> str:
    """Return the digest of a module's code at the first call, as it was loaded."""
    if digest := code_digest(module):
        return digest
    raise DeclarationError(
        f"the code of {module.__name__} is in no file, so its results cannot be distinguished from those of other code;"
        " put it into a module"
    )
