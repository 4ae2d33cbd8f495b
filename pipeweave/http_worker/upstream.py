"""What earlier steps have left for an attempt: their outputs and assets, and the uploads of the run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

from pipeweave.attempt.files import StoredFile
from pipeweave.http_worker.access import ObjectAccess, load_json
from pipeweave.http_worker.dispatch import Dispatch
from pipeweave.http_worker.link import OrchestratorLink

Ref = Mapping[str, Any]


class UpstreamRefs:
    """Where the results of completed steps are, by step id.

    A dispatch names the nearest; the others are asked for when they are needed.
    """

    def __init__(self, dispatch: Dispatch, link: OrchestratorLink) -> None:
        self._refs: dict[str, Ref] = dict(dispatch.upstream_refs)
        self._next = dispatch.upstream_next
        self._link = link

    def get(self, step_id: str) -> Ref | None:
        """The references of a step; None if it is not before this one, or has not completed."""
        while step_id not in self._refs and self._next is not None:
            self._load_more()
        return self._refs.get(step_id)

    def all(self) -> Mapping[str, Ref]:
        """The references of all steps."""
        while self._next is not None:
            self._load_more()
        return self._refs

    def asset(self, key: str) -> Ref | None:
        """The asset with this key; of several, the one of the nearest step: it is named last."""
        seen = 0
        while True:
            new = list(self._refs.values())[seen:]
            seen = len(self._refs)
            for each in reversed(new):
                if isinstance(ref := (each.get("assets") or {}).get(key), dict):
                    return ref
            if self._next is None:
                return None
            self._load_more()

    def _load_more(self) -> None:
        page = self._link.get(self._next or "")
        more = page.get("upstreamRefs") if isinstance(page, dict) else None
        for step_id, each in (more or {}).items():
            self._refs.setdefault(step_id, each)
        following = page.get("upstreamNext") if isinstance(page, dict) else None
        self._next = following if more and isinstance(following, str) else None


class DispatchedUpstream(Mapping[str, Any]):
    """The outputs of completed steps by step id, each loaded at its first use."""

    def __init__(self, refs: UpstreamRefs, access: ObjectAccess) -> None:
        self._refs = refs
        self._access = access
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, step_id: str) -> Any:
        if step_id not in self._loaded:
            ref = self._refs.get(step_id)
            if ref is None:
                raise KeyError(step_id)
            self._loaded[step_id] = load_json(self._access, str(ref.get("outputPath")), ref.get("outputUrl"))
        return self._loaded[step_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._refs.all())

    def __len__(self) -> int:
        return len(self._refs.all())


class Means:
    """Finds assets and uploads by what the dispatch says, and reads them by its access."""

    def __init__(self, dispatch: Dispatch, refs: UpstreamRefs, access: ObjectAccess) -> None:
        self._uploads = dispatch.uploads
        self._refs = refs
        self._access = access
        self._urls: dict[str, str | None] = {}

    def asset(self, key: str) -> StoredFile | None:
        ref = self._refs.asset(key)
        return None if ref is None else self._file(ref, str(ref.get("type", "binary")))

    def uploaded(self, upload_id: str) -> StoredFile | None:
        upload = self._uploads.get(upload_id)
        if upload is None:
            return None
        return self._file(upload, str(upload.get("mimeType", "")), str(upload.get("filename", "")))

    def read(self, file: StoredFile) -> AbstractContextManager[Iterable[bytes]]:
        return self._access.read(file.place, self._urls.get(file.place))

    def _file(self, ref: Ref, type_: str, name: str = "") -> StoredFile:
        path = str(ref.get("path"))
        self._urls[path] = ref.get("url")
        size = ref.get("size")
        return StoredFile(path, size if isinstance(size, int) else 0, type_, name)
