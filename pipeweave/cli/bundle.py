"""`pipeweave bundle`: build, sign and verify bundles without a server; install, list and revoke them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipeweave.cli.support.connection import connected, json_option
from pipeweave.cli.support.help_texts import examples
from pipeweave.cli.support.rendering import (
    field,
    moment,
    show_answer,
    show_fields,
    show_list,
    text,
    when,
)
from pipeweave.cli.support.resource import Resource
from pipeweave.cli.support.tables import Column
from pipeweave.errors import InvalidInput

if TYPE_CHECKING:
    from pipeweave.bundles.bundle import Bundle
    from pipeweave.client import Client, Document

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_VERSION_CELLS: dict[Column, Callable[[Mapping[str, Any]], Any]] = {
    Column("version"): field("version"),
    Column("state"): field("state"),
    Column("tasks", drop=2): lambda each: len(each["tasks"]),
    Column("pipelines", drop=2): lambda each: len(each["pipelines"]),
    Column("trusted keys", drop=1): lambda each: ", ".join(each["keyNames"]) or "none",
    moment("installed (UTC)", drop=1): lambda each: when(each["installedAt"]),
    Column("reason", drop=1): lambda each: each["revokeReason"] or "",
}


@click.group()
def bundle() -> None:
    """Build, sign, install and revoke bundles.

    A bundle is one signed file with tasks and pipelines.
    """


@bundle.command(
    epilog=examples(
        "pipeweave bundle build shop --id shop --version 1.4.0",
        "pipeweave bundle build . --app shop.tasks --out dist/shop.pwb",
    )
)
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--id", "bundle_id", help="Defaults to the name in pyproject.toml.")
@click.option("--version", help="One to four numbers with dots. Defaults to the one in pyproject.toml.")
@click.option(
    "--app",
    "apps",
    metavar="MODULE",
    multiple=True,
    help="Module with tasks or pipelines. Defaults to every .py file and document of FOLDER. May be"
    " repeated.",
)
@click.option(
    "--wheel", "wheels", type=_FILE, multiple=True, help="Wheel that the sources import. May be repeated."
)
@click.option("--python", metavar="RANGE", help="Versions of Python, such as '>=3.11,<3.14'.")
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), help="Defaults to ID-VERSION.pwb here."
)
@json_option
def build(
    folder: Path,
    bundle_id: str | None,
    version: str | None,
    apps: tuple[str, ...],
    wheels: tuple[Path, ...],
    python: str | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Build a bundle from the sources in FOLDER.

    It imports them. The same sources give the same file, byte for byte.
    """
    from pipeweave.bundles import building
    from pipeweave.bundles.bundle import SUFFIX

    built = building.build(
        folder, bundle_id=bundle_id, version=version, apps=apps, wheels=wheels, python=python
    )
    target = out or Path(f"{built.manifest.id}-{built.manifest.version}{SUFFIX}")
    _write(target, built.to_bytes())
    show_answer(_described(built, target), as_json, _show)


@bundle.command(epilog=examples("pipeweave bundle keygen release.key"))
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@json_option
def keygen(file: Path, as_json: bool) -> None:
    """Make a key that signs bundles.

    FILE is private and signs; FILE.pub is public and verifies.
    """
    from pipeweave.bundles import signing_keys

    key_id = signing_keys.key_id_of(signing_keys.generate(file))
    made = {"keyId": key_id, "privateKey": str(file), "publicKey": f"{file}.pub"}
    show_answer(made, as_json, lambda _: show_fields(_key_fields(made)))


def _key_fields(made: dict[str, str]) -> Sequence[tuple[str, str]]:
    names = {"keyId": "key", "privateKey": "private", "publicKey": "public"}
    return [(shown, made[name]) for name, shown in names.items()]


@bundle.command(epilog=examples("pipeweave bundle sign shop-1.4.0.pwb --key release.key"))
@click.argument("file", type=_FILE)
@click.option("--key", type=_FILE, required=True, help="Private key of `bundle keygen`.")
@json_option
def sign(file: Path, key: Path, as_json: bool) -> None:
    """Sign a bundle, in its file.

    A bundle may have the signatures of several keys.
    """
    from pipeweave.bundles import signing_keys

    signed = _read(file).signed(signing_keys.read_private(key))
    _write(file, signed.to_bytes())
    show_answer(_described(signed, file), as_json, _show)


@bundle.command(epilog=examples("pipeweave bundle verify shop-1.4.0.pwb --key release.key.pub"))
@click.argument("file", type=_FILE)
@click.option(
    "--key", "keys", type=_FILE, multiple=True, required=True, help="Public key to trust. May be repeated."
)
@json_option
def verify(file: Path, keys: tuple[Path, ...], as_json: bool) -> None:
    """Check every file and the signature of a bundle.

    Whoever installs it checks the same, against the keys of the tenant.
    """
    from pipeweave.bundles import signing_keys
    from pipeweave.bundles.bundle import TrustedKey, verified_by

    public = [signing_keys.parse_public(_text(each)) for each in keys]
    read = _read(file)
    verified_by(read, {signing_keys.key_id_of(each): TrustedKey(each) for each in public})
    show_answer({**_described(read, file), "verified": True}, as_json, _show)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{file} cannot be read: {error}") from None


def _read(file: Path) -> Bundle:
    from pipeweave.bundles import bundle as bundles
    from pipeweave.bundles.archive import MAX_BUNDLE_BYTES

    try:
        with file.open("rb") as opened:
            content = opened.read(MAX_BUNDLE_BYTES + 1)
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read: {error.strerror}") from None
    return bundles.read(content)


def _write(file: Path, content: bytes) -> None:
    """Write a file as a whole, or leave what was there."""
    beside = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        beside.write_bytes(content)
        beside.replace(file)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise InvalidInput(f"{file} cannot be written: {error.strerror}") from None


def _described(read: Bundle, file: Path) -> dict[str, Any]:
    manifest = read.manifest
    return {
        "file": str(file),
        "id": manifest.id,
        "version": manifest.version,
        "python": manifest.python,
        "tasks": manifest.task_ids,
        "pipelines": [str(each["id"]) for each in manifest.pipelines],
        "files": len(manifest.files),
        "contentHash": read.content_hash,
        "keyIds": read.key_ids,
    }


def _show(described: dict[str, Any]) -> None:
    shown = {
        "file": described["file"],
        "bundle": f"{described['id']} {described['version']}",
        "tasks": ", ".join(described["tasks"]) or "none",
        "pipelines": ", ".join(described["pipelines"]) or "none",
        "files": described["files"],
        "content": described["contentHash"],
        "signed by": ", ".join(described["keyIds"]) or "nobody yet",
    }
    show_fields(shown.items())
    if "verified" in described:
        click.echo("The signature and every file are right.")


# --- what needs an orchestrator ---------------------------------------------------------------------------


@bundle.command(epilog=examples("pipeweave bundle install shop-1.4.0.pwb"))
@click.argument("file", type=_FILE)
@click.option("--allow-downgrade", is_flag=True, help="Also if a newer version was installed before.")
@json_option
@connected
def install(client: Client, file: Path, allow_downgrade: bool, as_json: bool) -> None:
    """Install a signed bundle.

    Workers with --bundles load it within seconds, and its pipelines are stored.
    """
    show_answer(client.install_bundle(file, allow_downgrade=allow_downgrade), as_json, _show_installed)


def _show_installed(installed: Document) -> None:
    what = "installed" if installed["isNew"] else "was installed before"
    click.echo(text(f"{installed['id']} {installed['version']} {what}"))
    pipelines = [f"{each['id']} v{each['version']}" for each in installed["pipelines"]]
    shown = {
        "instead of": installed["replaced"],
        "tasks": ", ".join(installed["tasks"]) or "none",
        "pipelines": ", ".join(pipelines) or "none",
        "trusted keys": ", ".join(installed["keyIds"]),
    }
    show_fields((name, value) for name, value in shown.items() if value)


@bundle.command("list")
@json_option
@connected
def list_bundles(client: Client, as_json: bool) -> None:
    """List the bundles, each in the version that counts."""
    show_list("bundles", client.bundles(), {Column("bundle"): field("id"), **_VERSION_CELLS}, as_json=as_json)


@bundle.command(epilog=examples("pipeweave bundle show shop"))
@click.argument("bundle_id", metavar="BUNDLE")
@json_option
@connected
def show(client: Client, bundle_id: str, as_json: bool) -> None:
    """List the versions of a bundle, newest first."""
    show_list("versions", client.bundle_versions(bundle_id), _VERSION_CELLS, as_json=as_json)


@bundle.command(epilog=examples("pipeweave bundle revoke shop --reason 'charges twice'"))
@click.argument("bundle_id", metavar="BUNDLE")
@click.option("--version", help="Defaults to the one that counts, else the newest.")
@click.option("--reason", help="For people.")
@json_option
@connected
def revoke(client: Client, bundle_id: str, version: str | None, reason: str | None, as_json: bool) -> None:
    """Let a version of a bundle count no more, for good.

    Its tasks wait until another version is installed.
    """
    revoked = client.revoke_bundle(bundle_id, version, reason)
    parked = len(revoked["parkedTasks"])
    line = f"{revoked['id']} {revoked['version']} is revoked; tasks that wait now: {parked}"
    show_answer(revoked, as_json, line)


@bundle.group(cls=Resource)
def keys() -> None:
    """List, add and revoke the keys that the tenant trusts.

    Without a command, it lists them.
    """


@keys.command("list")
@json_option
@connected
def list_keys(client: Client, as_json: bool) -> None:
    """List the keys."""
    cells: dict[Column, Callable[[Mapping[str, Any]], Any]] = {
        Column("name"): field("name"),
        Column("key"): field("id"),
        moment("added (UTC)", drop=2): lambda each: when(each["addedAt"]),
        moment("revoked (UTC)"): lambda each: when(each["revokedAt"]),
        Column("reason", drop=1): lambda each: each["revokeReason"] or "",
    }
    none = "No keys yet: `pipeweave bundle keys add NAME KEY.pub` trusts one."
    show_list("keys", client.bundle_keys(), cells, as_json=as_json, none=none)


@keys.command(epilog=examples("pipeweave bundle keys add releases release.key.pub"))
@click.argument("name")
@click.argument("file", type=_FILE)
@json_option
@connected
def add(client: Client, name: str, file: Path, as_json: bool) -> None:
    """Trust bundles that a key has signed.

    FILE is the public key. It takes an administrator's token.
    """
    show_answer(client.add_bundle_key(name, _text(file)), as_json, lambda key: f"{key['id']} is trusted")


@keys.command("revoke", epilog=examples("pipeweave bundle keys revoke releases --reason 'stolen laptop'"))
@click.argument("key")
@click.option("--reason", help="For people.")
@json_option
@connected
def revoke_key(client: Client, key: str, reason: str | None, as_json: bool) -> None:
    """Trust a key no more, for good.

    KEY is its id or its name. Bundles that no other trusted key has signed stop. It takes an
    administrator's token.
    """
    revoked = client.revoke_bundle_key(key, reason)
    parked = ", ".join(revoked["parkedBundles"]) or "none"
    show_answer(revoked, as_json, f"{revoked['id']} is revoked; bundles that wait now: {parked}")
