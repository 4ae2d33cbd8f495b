"""Read stored objects and logs, upload files, and sweep storage over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pipeweave.client.models import Document, checked_id, document_of, without_none
from pipeweave.client.multipart import FileForm
from pipeweave.client.paging import PAGE_SIZE, Methods
from pipeweave.errors import FieldError, InvalidInput, PayloadTooLarge
from pipeweave.size_limits import MAX_UPLOAD_BYTES


class StorageMethods(Methods):
    """The methods of the client about stored objects, uploads and logs."""

    def storage_backends(self) -> Document:
        """Read the storage backends, without credentials: {backends, default}."""
        return document_of(self._http.get("/api/storage/backends"))

    def stored_value(self, path: str, backend: str | None = None) -> Any:
        """Read a stored object that is JSON.

        Args:
            path: its path, as `inputRef`, `outputRef` or an asset names it.
            backend: the backend that has it; None for the default backend.

        Raises:
            NotFound: the tenant has no such object. NotJson: it is not JSON.
        """
        return document_of(self._http.get(_object(path), {"backend": backend}))["content"]

    def download(self, path: str, to: str | Path, backend: str | None = None) -> int:
        """Write a stored object into a file, piece by piece; its size in bytes.

        Args:
            path: its path.
            to: the file; it is replaced when the object is complete.
            backend: the backend that has it; None for the default backend.

        Raises:
            NotFound: the tenant has no such object.
            OSError: the file cannot be written.
        """
        return self._http.download(_object(path), {"raw": True, "backend": backend}, Path(to))

    def object_preview(self, path: str, backend: str | None = None, name: str | None = None) -> Document:
        """Read what a stored object holds, as data: {kind, size, mediaType, content, text, rows, isCut}.

        Args:
            path: its path.
            backend: the backend that has it; None for the default backend.
            name: of the file, such as the key of an asset: its ending tells what it is.

        Raises:
            NotFound: the tenant has no such object.
        """
        return document_of(self._http.get(_object(path, "/preview"), {"backend": backend, "name": name}))

    def storage_usage(self, backend: str | None = None, prefix: str | None = None) -> Document:
        """Measure what lies in a backend, of all tenants, from a sample: {prefixes, seen, largest}.

        Needs an administrator's token of every tenant.

        Args:
            backend: None for the default backend.
            prefix: only paths that begin with it, such as `runs/`.

        Raises:
            NotFound: there is no such backend. InvalidInput: no object of ours begins like this.
        """
        return document_of(self._http.get("/api/storage/usage", {"backend": backend, "prefix": prefix}))

    def upload(self, file: str | Path, name: str | None = None) -> Document:
        """Upload a file of at most 100 MiB: {uploadId, filename, size, …}.

        Name `uploadId` in the input of a run within 24 hours; otherwise the file is deleted.

        Args:
            file: the path of the file.
            name: its name for the tasks; by default its own.

        Raises:
            InvalidInput: there is no such file. PayloadTooLarge: it is too large.
        """
        try:
            form = FileForm(Path(file), name)
        except OSError as error:
            what = f"cannot be read: {error.strerror}"
            raise InvalidInput(f"{file} {what}", errors=[FieldError("file", what)]) from error
        if form.size > MAX_UPLOAD_BYTES:
            # The API would refuse it in the middle of the sending.
            raise PayloadTooLarge(f"{file} has {form.size:,} bytes; an upload may have {MAX_UPLOAD_BYTES:,}")
        return document_of(self._http.send_form("/api/upload/temp", form))

    def uploads(self) -> Iterator[Document]:
        """Iterate over the uploads, newest first; deleted ones are among them for 30 days."""
        return self._all("/api/upload/temp", "uploads", {"limit": PAGE_SIZE})

    def upload_of(self, upload_id: str) -> Document:
        """Read an upload.

        Raises:
            NotFound: there is no such upload.
        """
        return document_of(self._http.get(f"/api/upload/temp/{checked_id(upload_id)}"))

    def delete_upload(self, upload_id: str) -> None:
        """Delete an upload that no run has claimed.

        Raises:
            NotFound: there is no such upload. Conflict: a run has claimed it. UploadDeleted: it was deleted.
        """
        self._http.send("DELETE", f"/api/upload/temp/{checked_id(upload_id)}")

    def upload_stats(self) -> Document:
        """Read the numbers of uploads: {total, expired, claimed, deleted, bytes}."""
        return document_of(self._http.get("/api/upload/stats"))

    def task_run_logs(
        self,
        task_run_id: str,
        *,
        attempt: int | None = None,
        offset: int | None = None,
        tail: int | None = None,
        find: str | None = None,
    ) -> Document:
        """Read the stored log of an attempt: {logs, attempt, isComplete, nextOffset, lineNumbers}.

        Args:
            task_run_id: the task run.
            attempt: the attempt; None for the present one.
            offset: `nextOffset` of the answer before, to go on from there.
            tail: only so many last lines.
            find: only lines that have this text, in whatever case, with their numbers.

        Raises:
            NotFound: there is no such task run, or it has not come to this attempt.
        """
        query = {"attempt": attempt, "offset": offset, "tail": tail, "find": find}
        return document_of(self._http.get(f"/api/task-runs/{checked_id(task_run_id)}/logs", query))

    def sweep_storage(
        self,
        *,
        dry_run: bool = False,
        backend: str | None = None,
        after: str | None = None,
        adopt: bool = False,
    ) -> Document:
        """Delete objects that no row refers to, for about 15 seconds. For administrators.

        Args:
            dry_run: only report.
            backend: only this backend; None for all.
            after: `next` of the answer before; None at first.
            adopt: the objects of a backend without the mark of this deployment are its own.

        Returns:
            {seen, kept, deleted, bytes, young, unknown, examples, next}; `next` is None when all were seen.

        Raises:
            Conflict: another process sweeps, or a backend may be another deployment's.
        """
        body = without_none(dryRun=dry_run, backend=backend, after=after, adopt=adopt)
        return document_of(self._http.send("POST", "/api/storage/sweep", body))


def _object(path: str, view: str = "") -> str:
    if not path or path.startswith("/"):
        raise InvalidInput("the path of an object must not be empty or absolute")
    return f"/api/storage{view}/{quote(path, safe='/~:@')}"
