"""The files of a corpus folder in a fixed order, and why some of them are not read.

Nothing outside the folder is opened: a symbolic link that leads out of it, a pipe or a device is listed
with the reason why it is ignored. Hidden files and folders (names that begin with ".") are not listed.
"""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from linkseek.indexer.program.errors import raise_of_machine
from linkseek.indexer.program.paths import is_inside


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file of a folder. `name` is its path in the folder, with "/" between the parts.

    ignored: why it is not read, which is counted; problem: why it cannot be read, which is an error;
    same_as: the listed file that this one, a symbolic link, leads to. web: whether it begins as a web page,
    of a file whose name has no suffix.
    """

    name: str
    bytes: int = 0
    modified_ns: int = 0
    ignored: str = ""
    problem: str = ""
    same_as: str = ""
    web: bool = False

    @property
    def typed(self) -> str:
        """The name, with the suffix that it lacks."""
        return f"{self.name}.html" if self.web else self.name


_SUFFIX = re.compile(r"\.(?!(?:php\d?|aspx?|jspx?|cfm|cgi|shtml)\Z)[A-Za-z]\w{0,9}\Z")
"""Not of what a server makes, which mirrors keep (pump.php)."""
_SOURCE = re.compile(rb"<\?(?:php|=)|<%")  # of such a page
_PAGE = re.compile(r"\.(?:x?html?|md)\Z", re.IGNORECASE)
_WEB_PAGE = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*>\s*|<!--.*?-->\s*)*<(?:!doctype html|html|head|body|meta|title)\b",
    re.IGNORECASE | re.DOTALL,
)


def _begins_as_web_page(path: Path) -> bool:
    """Dumps of wikis and mirrors of sites name files as their pages: wiki/Water, index.php?id=3."""
    try:
        with path.open("rb") as file:
            head = file.read(1024)
            return _WEB_PAGE.match(head) is not None and not _SOURCE.search(head)
    except OSError:
        return False  # which reading the file will report


def list_folder(folder: Path) -> list[ListedFile]:
    """Every file below `folder`, sorted by name. A folder that cannot be read is an entry with a problem."""
    root = os.path.realpath(folder)
    entries: list[ListedFile] = []
    links: list[tuple[str, str]] = []  # (name, target) of links within the folder
    waiting = [""]
    while waiting:
        inside = waiting.pop()
        try:
            with os.scandir(f"{root}/{inside}") as entries_of_folder:
                children = [child for child in entries_of_folder if not child.name.startswith(".")]
        except OSError as error:
            _raise_of_machine(error)
            entries.append(ListedFile(inside.rstrip("/") or ".", problem=error.strerror or str(error)))
            continue
        for child in children:
            name = inside + child.name
            if child.is_symlink():
                real = os.path.realpath(child.path)
                reason = _why_not_followed(real, root)
                if reason:
                    entries.append(ListedFile(name, ignored=reason))
                else:
                    links.append((name, os.path.relpath(real, root).replace(os.sep, "/")))
            elif child.is_dir():
                waiting.append(name + "/")
            else:
                entries.append(_entry(name, child))
    listed = {entry.name for entry in entries}
    for name, target in links:  # an unlisted target is hidden, as in git-annex
        entries.append(replace(_entry(name, Path(root, name)), same_as=target if target in listed else ""))
    pages = {entry.name.rpartition("/")[0] for entry in entries if entry.web}
    entries = [
        _with_dot(entry, root) if entry.name.rpartition("/")[0] in pages else entry for entry in entries
    ]
    return sorted(entries, key=lambda entry: entry.name)


def _with_dot(entry: ListedFile, root: str) -> ListedFile:
    """A page among pages without suffix whose name only looks as if it had one: Node.js."""
    dotted = not (entry.web or entry.ignored or entry.problem or _PAGE.search(entry.name))
    return replace(entry, web=entry.web or (dotted and _begins_as_web_page(Path(root, entry.name))))


def _entry(name: str, path: Path | os.DirEntry[str]) -> ListedFile:
    try:
        status = path.stat()
    except OSError as error:
        _raise_of_machine(error)
        return ListedFile(name, problem=error.strerror or str(error))
    regular = stat.S_ISREG(status.st_mode)
    web = regular and not _SUFFIX.search(name) and _begins_as_web_page(Path(path))
    ignored = "" if regular else "not a regular file"
    return ListedFile(name, status.st_size, status.st_mtime_ns, ignored, web=web)


def _raise_of_machine(error: OSError) -> None:
    """Raises `MachineError`, except where one file is closed to this user, which is a fault of the corpus."""
    if not isinstance(error, PermissionError):
        raise_of_machine(error)


def _why_not_followed(real: str, root: str) -> str:
    if real != root and not is_inside(Path(root), Path(real)):
        return "symbolic link that leads outside the folder"
    path = Path(real)
    if path.is_dir():
        return "symbolic link to a folder"
    return "" if path.exists() else "broken symbolic link"


def suffix_of(name: str) -> str:
    """The suffix of a file's name for counting, in lower case; "without suffix" if it has none."""
    suffix = PurePosixPath(name).suffix.lower()
    if not suffix:
        return "without suffix"
    return suffix if len(suffix) <= 10 and suffix[1:].isalnum() else "with other suffixes"


def folder_suffixes(folder: Path) -> Counter[str]:
    """The number of files in a folder by suffix."""
    return Counter(suffix_of(entry.name) for entry in list_folder(folder))


def suffixes_in_words(counts: Counter[str]) -> str:
    """The five most frequent suffixes, for a message: "12 .png, 3 .txt"; "nothing" if there is none."""
    return ", ".join(f"{count:,} {suffix}" for suffix, count in counts.most_common(5)) or "nothing"
