"""What it takes to believe a bundle: every byte, and a key that is trusted now."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from support.bundles import a_bundle, id_of, key_of, manifest_document, trusting

from pipeweave.bundles import archive, bundle, envelope, signing_keys
from pipeweave.bundles.bundle import MANIFEST, SIGNATURE
from pipeweave.errors import (
    BundleKeyRevoked,
    BundleKeyUnknown,
    BundleSignatureInvalid,
    InvalidBundle,
    InvalidInput,
    PipeWeaveError,
)

MINE, OTHER, THIRD = key_of(1), key_of(2), key_of(3)


def repacked(content: bytes, **replaced: bytes) -> bytes:
    """A bundle with other files; a name is that of a file, with `_` for its dots."""
    names = {"manifest": MANIFEST, "signature": SIGNATURE, "source": "src/tasks.py"}
    files = archive.unpack(content)
    return archive.pack({**files, **{names[each]: text for each, text in replaced.items()}})


def test_a_bundle_is_read_as_it_was_written() -> None:
    signed = a_bundle(MINE)
    read = bundle.read(signed.to_bytes())
    assert read == signed
    assert bundle.verified_by(read, trusting(MINE)) == [id_of(MINE)]


def test_each_byte_of_a_bundle_counts() -> None:
    content = a_bundle(MINE).to_bytes()
    keys = trusting(MINE)
    unnoticed = []
    for place in range(len(content)):
        changed = content[:place] + bytes([content[place] ^ 0x01]) + content[place + 1 :]
        try:
            bundle.verified_by(bundle.read(changed), keys)
        except PipeWeaveError as error:
            assert error.code.startswith("BUNDLE_"), place
        else:
            unnoticed.append(place)
    assert unnoticed == []


def test_each_end_that_is_cut_off_is_noticed() -> None:
    content = a_bundle(MINE).to_bytes()
    for length in range(len(content)):
        with pytest.raises(InvalidBundle):
            bundle.read(content[:length])


def test_a_changed_file_is_refused_with_its_place() -> None:
    content = repacked(a_bundle(MINE).to_bytes(), source=b"import os\n")
    with pytest.raises(InvalidBundle) as refused:
        bundle.read(content)
    assert [each.field for each in refused.value.errors] == ["files[0]"]


def test_a_file_that_is_not_listed_is_refused() -> None:
    files = archive.unpack(a_bundle(MINE).to_bytes())
    with pytest.raises(InvalidBundle, match="not listed"):
        bundle.read(archive.pack({**files, "src/more.py": b""}))
    del files["src/tasks.py"]
    with pytest.raises(InvalidBundle, match="missing"):
        bundle.read(archive.pack(files))


def test_the_signature_of_another_bundle_does_not_count() -> None:
    other = archive.unpack(a_bundle(MINE, version="2.0.0").to_bytes())[SIGNATURE]
    with pytest.raises(BundleSignatureInvalid, match="another manifest"):
        bundle.read(repacked(a_bundle(MINE).to_bytes(), signature=other))


def test_a_signature_by_another_key_in_the_name_of_a_trusted_one_does_not_count() -> None:
    signed = a_bundle(OTHER)
    assert signed.envelope is not None
    forged = envelope.BundleSignature(
        signed.envelope.payload, {id_of(MINE): signed.envelope.signatures[id_of(OTHER)]}
    )
    content = repacked(signed.to_bytes(), signature=forged.to_bytes())
    with pytest.raises(BundleSignatureInvalid):
        bundle.verified_by(bundle.read(content), trusting(MINE))


def test_a_signature_of_the_bare_manifest_does_not_count() -> None:
    """DSSE signs the type, too: what was signed as something else is no bundle."""
    made = a_bundle()
    payload = made.manifest.to_bytes()
    bare = envelope.BundleSignature(payload, {id_of(MINE): MINE.sign(payload)})
    with pytest.raises(BundleSignatureInvalid):
        bundle.verified_by(bundle.Bundle(made.manifest, made.files, bare), trusting(MINE))


def test_what_is_signed_is_the_encoding_of_dsse() -> None:
    assert envelope.signed_bytes(b"{}") == b"DSSEv1 37 application/vnd.pipeweave.bundle+json 2 {}"


def test_a_bundle_without_a_signature_is_refused() -> None:
    with pytest.raises(BundleSignatureInvalid, match="not signed"):
        bundle.verified_by(bundle.read(a_bundle().to_bytes()), trusting(MINE))


def test_a_key_that_the_tenant_does_not_know_is_refused() -> None:
    with pytest.raises(BundleKeyUnknown) as refused:
        bundle.verified_by(a_bundle(OTHER), trusting(MINE))
    assert refused.value.context["keyIds"] == [id_of(OTHER)]


def test_a_revoked_key_is_refused() -> None:
    with pytest.raises(BundleKeyRevoked):
        bundle.verified_by(a_bundle(OTHER), trusting(MINE, revoked=[OTHER]))


def test_of_two_keys_one_that_is_trusted_is_enough() -> None:
    both = bundle.read(a_bundle(MINE, OTHER).to_bytes())
    assert bundle.verified_by(both, trusting(MINE)) == [id_of(MINE)]
    assert bundle.verified_by(both, trusting(OTHER, revoked=[MINE])) == [id_of(OTHER)]
    assert bundle.verified_by(both, trusting(MINE, OTHER)) == sorted([id_of(MINE), id_of(OTHER)])
    assert bundle.verified_by(both, trusting(MINE, THIRD)) == [id_of(MINE)]


def test_a_wrong_signature_of_a_revoked_key_is_refused_too() -> None:
    signed = a_bundle(MINE)
    assert signed.envelope is not None
    wrong = {**signed.envelope.signatures, id_of(OTHER): bytes(64)}
    both = bundle.Bundle(
        signed.manifest, signed.files, envelope.BundleSignature(signed.envelope.payload, wrong)
    )
    with pytest.raises(BundleSignatureInvalid):
        bundle.verified_by(both, trusting(MINE, revoked=[OTHER]))


def test_the_order_in_which_keys_sign_does_not_matter() -> None:
    assert a_bundle(MINE, OTHER).to_bytes() == a_bundle(OTHER, MINE).to_bytes()
    assert a_bundle(MINE).content_hash == a_bundle(OTHER).content_hash


def test_a_bundle_has_a_few_signatures_only() -> None:
    signed = a_bundle(*(key_of(each) for each in range(1, 9)))
    with pytest.raises(BundleSignatureInvalid, match="at most 8"):
        signed.signed(key_of(9))


@pytest.mark.parametrize(
    "text",
    [b"", b"[]", b"{}", b"null", b'{"payload": "e30=", "payloadType": "x", "signatures": []}', b"\xff", b"7"],
)
def test_what_is_no_envelope_is_refused(text: bytes) -> None:
    with pytest.raises(BundleSignatureInvalid):
        envelope.parse(text)


def test_an_envelope_that_is_written_otherwise_is_refused() -> None:
    signed = a_bundle(MINE)
    assert signed.envelope is not None
    loose = orjson.dumps(orjson.loads(signed.envelope.to_bytes()), option=orjson.OPT_INDENT_2)
    with pytest.raises(BundleSignatureInvalid):
        envelope.parse(loose)


def test_a_manifest_that_is_written_otherwise_is_refused() -> None:
    files = archive.unpack(a_bundle().to_bytes())
    loose = orjson.dumps(
        manifest_document({"src/tasks.py": files["src/tasks.py"]}), option=orjson.OPT_INDENT_2
    )
    with pytest.raises(InvalidBundle, match="canonical"):
        bundle.read(archive.pack({**files, MANIFEST: loose}))


def test_a_private_key_is_its_owners_alone_and_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "release.key"
    public = signing_keys.generate(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert signing_keys.public_bytes(signing_keys.read_private(path)) == public
    assert signing_keys.parse_public((tmp_path / "release.key.pub").read_text()) == public
    for gone in (path, tmp_path / "release.key.pub"):
        gone.unlink()
        with pytest.raises(InvalidInput, match="exists"):
            signing_keys.generate(path)
        gone.touch()


def test_a_file_without_a_key_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "release.key"
    signing_keys.generate(path)
    with pytest.raises(InvalidInput):
        signing_keys.read_private(tmp_path / "release.key.pub")
    with pytest.raises(InvalidInput):
        signing_keys.parse_public(path.read_text())
    with pytest.raises(InvalidInput):
        signing_keys.parse_public("ssh-ed25519 AAAA")


def test_files_are_unpacked_where_they_belong(tmp_path: Path) -> None:
    a_bundle(files={"src/tasks.py": b"1", "src/deep/er.py": b"2"}).unpack_into(tmp_path)
    assert (tmp_path / "src/deep/er.py").read_bytes() == b"2"
