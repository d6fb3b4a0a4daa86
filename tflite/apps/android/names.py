"""Names of users' tensors, signatures and files as identifiers of Java and Kotlin: safe and unique."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from keras_attention.tflite.apps.android import reserved

_KEYWORDS = frozenset(
    """abstract as assert boolean break byte case catch char class const continue default do double else
    enum exports extends false final finally float for fun goto if implements import in instanceof int
    interface is long module native new null object open operator override package private protected
    public record return sealed short static strictfp super switch synchronized this throw throws
    transient true try typealias typeof val var void volatile when while yield""".split()
)
_MEMBERS = frozenset(
    """answer classes clone close equals finalize getclass getprocessor hashcode labelled notify notifyall
    pixels processor runtime tostring wait""".split()
)
"""What generated classes and java.lang.Object have already, in lower case."""
_ENDINGS = ("inputs", "outputs", "pixels", "answer")
"""Generated members are called like the signature with one of these."""
_CLASS_ENDINGS = ("Result", "Parity", "Window", "Test", "Checked")
"""Of other generated classes."""
_LONGEST = 40
_PACKAGE = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+", re.ASCII)
_CLASS = re.compile(r"[A-Z][A-Za-z0-9]*", re.ASCII)


def _words(name: str) -> list[str]:
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return [word for part in re.findall(r"[A-Za-z0-9]+", plain) for word in _parts(part)]


def _parts(text: str) -> list[str]:
    return re.findall(r"[A-Z]+(?![a-z])[0-9]*|[A-Z]?[a-z]+[0-9]*|[0-9]+|[A-Z]", text)


def identifiers(names: Iterable[str], otherwise: str, taken: Iterable[str] = ()) -> list[str]:
    """Return one camelCase identifier for each name, no two alike even where case doesn't count.

    Args:
        names: of any characters.
        otherwise: what a name is called that has no letter or digit of ASCII in it.
        taken: identifiers that must not be used.
    """
    used = {name.lower() for name in taken} | _KEYWORDS | _MEMBERS
    chosen = []
    for name in names:
        words = [word.lower() for word in _words(name)] or [otherwise]
        base = (words[0] + "".join(word.capitalize() for word in words[1:]))[:_LONGEST]
        if base[0].isdigit():
            base = otherwise + base
        if base in _KEYWORDS or base.lower() in _MEMBERS or base.lower().endswith(_ENDINGS):
            base += "Value"
        identifier, number = base, 2
        while identifier.lower() in used:
            identifier, number = f"{base}{number}", number + 1
        used.add(identifier.lower())
        chosen.append(identifier)
    return chosen


class Constants:
    """Names of the constants of one class, no two alike."""

    def __init__(self) -> None:
        self._used = {"ASSET", "GOLDEN_ASSET"}

    def add(self, name: str) -> str:
        """Return the name, with a number behind it where another constant has it."""
        chosen, number = name, 2
        while chosen in self._used:
            chosen, number = f"{name}_{number}", number + 1
        self._used.add(chosen)
        return chosen


def window_class(name: str, input_id: str) -> str:
    """Return the class of windows for one of a model's inputs; `input_id` is empty for the only one."""
    chosen = f"{name}{pascal(input_id) if input_id else ''}Window"
    return f"{name}{pascal(input_id)}InputWindow" if chosen.lower() in reserved.CLASSES else chosen


def upper(identifier: str) -> str:
    """Return camelCase as UPPER_SNAKE_CASE."""
    return "_".join(_parts(identifier)).upper()


def pascal(identifier: str) -> str:
    """Return camelCase as PascalCase."""
    return identifier[0].upper() + identifier[1:]


def class_name(stem: str) -> str:
    """Return a class name for a file's name."""
    name = "".join(word.capitalize() if word.islower() else word for word in _words(stem))[:_LONGEST]
    if not name or name[0].isdigit():
        name = f"Model{name}"
    name = pascal(name)
    return f"{name}Model" if _is_taken(name) else name


def _is_taken(name: str) -> bool:
    return name.lower() in reserved.CLASSES or name.endswith(_CLASS_ENDINGS)


def check_class_name(name: str) -> None:
    """Raise if a user's class name can't be used."""
    if not _CLASS.fullmatch(name) or len(name) > 2 * _LONGEST:
        raise ValueError(
            f"`class_name` must be of ASCII letters and digits and start with a capital. Received: {name!r}"
        )
    if _is_taken(name):
        raise ValueError(
            "`class_name` must not be a class of Java, Kotlin, Android or the generated code, in any case of "
            f"letters, nor end with one of {_CLASS_ENDINGS}. Received: {name!r}; {name}Model would do"
        )


def check_package(package: str) -> None:
    """Raise if this is no name of an Android package."""
    if not _PACKAGE.fullmatch(package) or set(package.split(".")) & _KEYWORDS or len(package) > 150:
        raise ValueError(
            "`package` must be two or more words of a-z, 0-9 and _, joined by dots, none of them a word of "
            f"Java or Kotlin, such as 'com.example.app'. Received: {package!r}"
        )
    taken = package.split(".")[0] in reserved.PACKAGES
    if taken or any(f"{package}.".startswith(f"{library}.") for library in reserved.LIBRARIES):
        raise ValueError(
            f"`package` must be your own, not one of {(*reserved.PACKAGES, *reserved.LIBRARIES)} or in them, "
            f"which belong to others. Received: {package!r}"
        )


def asset_name(name: str) -> str:
    """Return a class name as a file name of lower case letters, digits and underlines."""
    return upper(name).lower()
