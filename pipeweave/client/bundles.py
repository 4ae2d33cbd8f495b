"""Install, show and revoke bundles over HTTP, and the keys that a tenant trusts."""

from __future__ import annotations

from pathlib import Path

from pipeweave.client.models import Document, checked_id, document_of, without_none
from pipeweave.client.multipart import FileForm
from pipeweave.client.paging import Methods
from pipeweave.errors import FieldError, InvalidInput


class BundleMethods(Methods):
    """The methods of the client about bundles."""

    def install_bundle(self, file: str | Path, *, allow_downgrade: bool = False) -> Document:
        """Install a bundle: {id, version, isNew, keyIds, replaced, tasks, pipelines}.

        Args:
            file: the path of the bundle, `….pwb`.
            allow_downgrade: whether an older version than the newest may follow.

        Raises:
            InvalidInput: there is no such file. InvalidBundle: it is no bundle.
            BundleKeyUnknown, BundleKeyRevoked: no key that the tenant trusts signed it.
            BundleDowngrade: a newer version was installed before.
        """
        try:
            form = FileForm(Path(file))
        except OSError as error:
            what = f"cannot be read: {error.strerror}"
            raise InvalidInput(f"{file} {what}", errors=[FieldError("file", what)]) from error
        query = "?allowDowngrade=true" if allow_downgrade else ""
        return document_of(self._http.send_form(f"/api/bundles{query}", form))

    def bundles(self) -> list[Document]:
        """List the bundles of the tenant by id, each in the version that counts, else in its newest."""
        return list(document_of(self._http.get("/api/bundles"))["bundles"])

    def bundle_versions(self, bundle_id: str) -> list[Document]:
        """List the versions of a bundle, newest first.

        Raises:
            NotFound: there is no such bundle.
        """
        return list(document_of(self._http.get(f"/api/bundles/{checked_id(bundle_id)}"))["versions"])

    def revoke_bundle(
        self, bundle_id: str, version: str | None = None, reason: str | None = None
    ) -> Document:
        """Let a version of a bundle count no more, for good: {id, version, parkedTasks}.

        Args:
            bundle_id: the bundle.
            version: None for the one that counts, else the newest.
            reason: a text for people.

        Raises:
            NotFound: there is no such bundle or version.
        """
        body = without_none(version=version, reason=reason)
        return document_of(self._http.send("POST", f"/api/bundles/{checked_id(bundle_id)}/revoke", body))

    def bundle_keys(self) -> list[Document]:
        """List the keys that the tenant trusts, then those that it has revoked."""
        return list(document_of(self._http.get("/api/bundle-keys"))["keys"])

    def add_bundle_key(self, name: str, public_key: str) -> Document:
        """Trust bundles that a key has signed. For administrators.

        Args:
            name: for people, unique among the trusted keys.
            public_key: Ed25519 in PEM, the `.pub` file of `pipeweave bundle keygen`.

        Raises:
            Conflict: another key has the name. BundleKeyRevoked: the key was revoked.
        """
        body = {"name": name, "publicKey": public_key}
        return document_of(self._http.send("POST", "/api/bundle-keys", body))

    def revoke_bundle_key(self, key: str, reason: str | None = None) -> Document:
        """Trust a key no more, for good: {id, parkedBundles}. For administrators.

        Args:
            key: its id or its name.
            reason: a text for people.

        Raises:
            NotFound: there is no such key.
        """
        path = f"/api/bundle-keys/{checked_id(key)}/revoke"
        return document_of(self._http.send("POST", path, without_none(reason=reason)))

    def take_only_signed(self, tenant: str, only_signed: bool = True) -> Document:
        """Say whether a tenant takes only pipelines that signed bundles bring. For administrators.

        Raises:
            NotFound: there is no such tenant, or the token may not enter it.
        """
        path = f"/api/tenants/{checked_id(tenant)}/signed-pipelines"
        return document_of(self._http.send("PUT", path, {"onlySigned": only_signed}))
