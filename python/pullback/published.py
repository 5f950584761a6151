"""Models as they are published: descriptions of robots in xacro, and MuJoCo's archives (MJZ)."""
from __future__ import annotations

import contextlib
import os
import tempfile
import xml.etree.ElementTree as ElementTree
import zipfile
from collections.abc import Iterable, Iterator, Mapping

from .errors import ArgumentError, Error, FileError, InputError

MOST = 1 << 30  # bytes of an archive when it is unpacked


def write_below(folder: str, path: str, data: bytes | str, what: str) -> None:
    """A file of a private folder, not beside it. what: the argument or file that names it."""
    place = os.path.normpath(os.path.join(folder, path))
    if os.path.isabs(path) or not place.startswith(folder + os.sep):
        raise ArgumentError(f"{what}: expected a path below the model's folder, found {path!r}")
    if not isinstance(data, (str, bytes, bytearray, memoryview)):
        raise ArgumentError(f"{what}: expected bytes or text of {path!r}, found {type(data).__name__}")
    os.makedirs(os.path.dirname(place), exist_ok=True)
    with open(place, "wb") as f:
        f.write(data.encode() if isinstance(data, str) else bytes(data))


@contextlib.contextmanager
def private(place: str = "") -> Iterator[str]:
    """A folder of its own; errors name its files as if they lay in place (an empty text: by their names alone)."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            yield folder
        except Error as error:
            text = str(error)
            for known in (os.path.realpath(folder), folder):
                text = text.replace(known + os.sep, os.path.join(place, ""))
            raise type(error)(text) from None


# ---- xacro ------------------------------------------------------------------------------------------------------------------
def _expanded(path: str, arguments: Mapping[str, object], packages: Iterable[str]) -> ElementTree.Element:
    """The URDF that a file in xacro makes with these arguments. It runs what the file says."""
    try:
        import xacrodoc
    except ImportError:
        raise ImportError("xacro=: descriptions in xacro are expanded by the package xacrodoc: pip install xacrodoc") from None
    if not os.path.isfile(path):
        raise FileError(f"{path}: cannot be found")
    try:
        name = ElementTree.parse(path).getroot().get("name", "robot")
        xacrodoc.packages.look_in(list(packages))
        xacrodoc.packages.walk_up_from(path)
        # As an include, for then what it includes lies beside it.
        made = xacrodoc.XacroDoc.from_includes([path], name=name, subargs={str(k): _text(v) for k, v in arguments.items()})
        return ElementTree.fromstring(made.to_urdf_string(use_protocols=False))
    except Exception as error:  # whatever the file's own expressions raise
        raise InputError(f"{path}: xacro: {error}") from error


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@contextlib.contextmanager
def expanded(path: str, xacro: object, packages: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """The file that xacro makes of another, in a private folder, and the folders with what it names."""
    if not isinstance(xacro, (bool, Mapping)):
        raise ArgumentError(f"xacro: expected True or a dict of arguments by name, found {type(xacro).__name__}")
    here = os.path.dirname(os.path.abspath(path))
    root = _expanded(path, {} if isinstance(xacro, bool) else xacro, packages)
    roots = {here}
    for element in root.iter():
        name = element.get("filename")
        if not name or "://" in name:
            continue
        place = os.path.normpath(os.path.join(here, name))
        element.set("filename", place)
        roots.add(os.path.dirname(place))

    name = os.path.basename(path).removesuffix(".xacro")
    with private(os.path.dirname(path)) as folder:
        file = os.path.join(folder, name if os.path.splitext(name)[1] else name + ".urdf")
        ElementTree.ElementTree(root).write(file)
        yield file, sorted(roots)


# ---- MJZ --------------------------------------------------------------------------------------------------------------------
def _model_in(path: str, names: list[str]) -> str:
    """The model of an archive, by MuJoCo's rule: named as the archive or `model`, at the top or in a folder named as the archive."""
    stem = os.path.splitext(os.path.basename(path))[0]
    for name in (f"{stem}.xml", "model.xml", f"{stem}/{stem}.xml", f"{stem}/model.xml"):
        if name in names:
            return name
    models = [name for name in names if name.endswith((".xml", ".urdf"))]
    if len(models) == 1:
        return models[0]
    raise InputError(f"{path}: expected {stem}.xml or model.xml in the archive, found {', '.join(models[:5]) or 'no model'}")


@contextlib.contextmanager
def unpacked(path: str) -> Iterator[str]:
    """The model of an archive, in a private folder."""
    try:
        archive = zipfile.ZipFile(path)
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}") from None
    except zipfile.BadZipFile as error:
        raise InputError(f"{path}: {error}") from None
    with archive, private() as folder:
        files = [info for info in archive.infolist() if not info.is_dir()]
        if sum(info.file_size for info in files) > MOST:
            raise InputError(f"{path}: more than {MOST >> 30} GiB when it is unpacked")
        model = _model_in(path, [info.filename for info in files])
        for info in files:
            try:
                write_below(folder, info.filename, archive.read(info), path)
            except (zipfile.BadZipFile, RuntimeError, NotImplementedError) as error:  # damaged, encrypted, an unknown method
                raise InputError(f"{path}: {info.filename}: {error}") from None
        yield os.path.join(folder, model)
