"""What lies in storage, and stored objects: shown as data, saved as files, and never run."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from uuid import uuid4

import pytest
from playwright.sync_api import Browser
from support.browser import PHONE, Visit, visiting
from support.run_driver import RunDriver

from pipeweave import ids
from pipeweave.orchestrator.security import ADMIN, EVERY_TENANT, READ
from pipeweave.settings import Settings
from pipeweave.storage import Backends, Storage

SCRIPT = "<script>document.title = 'run'</script><img src=x onerror=alert(1)>"
TABLE = f"name,{SCRIPT}\nzinc,30\n".encode()
JSON = b'{"tin": [50, null]}'


def _png() -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    size = struct.pack(">IIBBBBB", 2, 2, 8, 2, 0, 0, 0)
    rows = zlib.compress(b"\0\xff\0\0\xff\0\0" * 2)
    begin = b"\x89PNG\r\n\x1a\n"
    return begin + chunk(b"IHDR", size) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


@pytest.fixture
def storage(server_folder: object) -> Storage:
    """The storage of the server's process."""
    return Backends.of(Settings(data_dir=str(server_folder))).default


@pytest.fixture
def put(driver: RunDriver, storage: Storage) -> Callable[[str, bytes], str]:
    """Writes a file of a task run of this tenant; its path."""
    driver.store({"a": []})
    run = driver.trigger()

    def write(name: str, content: bytes) -> str:
        path = f"runs/{ids.show(ids.TASK_RUN, ids.task_run_id(run, 1))}.1/assets/{name}"
        storage.put(path, content)
        return path

    return write


def test_storage_names_its_backends_and_nothing_secret(visit: Visit) -> None:
    visit.open("/storage")
    visit.see("new values go here")
    visit.see("pipeweave upload FILE")
    assert visit.page.get_by_role("link", name="how much").count() == 0, "that concerns all tenants"
    visit.axe()


def test_objects_are_shown_as_what_they_are_and_never_run(
    browser: Browser,
    server: str,
    driver: RunDriver,
    make_token: Callable[..., str],
    put: Callable[[str, bytes], str],
) -> None:
    token = make_token(READ, tenants=(driver.tenant, f"other-{uuid4().hex[:8]}"))
    with visiting(browser, server, driver.tenant, token) as visit:
        visit.open(f"/storage/object?path={put('page.html', SCRIPT.encode())}")
        visit.see(SCRIPT)
        assert visit.page.locator("main img").count() == 0
        visit.axe_in_both_themes()
        visit.open(f"/storage/object?path={put('odd.svg', b'<svg onload=alert(1)></svg>')}")
        visit.see("<svg onload=alert(1)>")
        visit.open(
            f"/storage/object?path={put('rows.csv', f'name,{SCRIPT}{chr(10)}zinc,30{chr(10)}'.encode())}"
        )
        assert visit.page.get_by_role("row").nth(1).inner_text().split() == ["1", "zinc", "30"]
        visit.axe_in_both_themes()
        visit.open(f"/storage/object?path={put('value.json', JSON)}")
        visit.see("tin")
        visit.axe_in_both_themes()
        visit.open(f"/storage/object?path={put('dot.png', _png())}")
        image = visit.page.get_by_role("img", name="The stored image dot.png")
        image.wait_for()
        assert image.evaluate("each => each.naturalWidth") == 2
        visit.axe_in_both_themes()
        visit.open(f"/storage/object?path={put('blob.bin', bytes(40))}")
        visit.see("It is no text, so only its bytes are to be had.")
        visit.open("/storage/object?path=runs/nobody/x", status=404)


def test_a_file_is_saved_also_by_somebody_with_several_tenants(
    browser: Browser,
    server: str,
    driver: RunDriver,
    make_token: Callable[..., str],
    put: Callable[[str, bytes], str],
) -> None:
    token = make_token(READ, tenants=(driver.tenant, f"other-{uuid4().hex[:8]}"))
    page = f"/storage/object?path={put('page.html', SCRIPT.encode())}"
    with visiting(browser, server, driver.tenant, viewport=PHONE) as visit:
        visit.page.goto(f"{visit.root}{page}")
        visit.page.get_by_label("Access token").fill(token)
        visit.page.get_by_role("button", name="Log in").click()
        visit.see(SCRIPT)
        with visit.page.expect_download() as saving:
            visit.page.get_by_role("link", name="Download").click()
        assert saving.value.suggested_filename == "page.html"
        assert saving.value.path().read_bytes() == SCRIPT.encode()
        answer = visit.page.request.get(f"{visit.root}/storage/file?path={put('page.html', b'x')}")
        assert answer.headers["content-disposition"].startswith("attachment")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-security-policy"].startswith("sandbox")
        visit.axe()


def test_a_file_of_another_tenant_is_not_there(
    browser: Browser, server: str, make_token: Callable[..., str], put: Callable[[str, bytes], str]
) -> None:
    path, stranger = put("a.txt", b"secret"), f"stranger-{uuid4().hex[:8]}"
    with visiting(browser, server, stranger, make_token(READ, tenants=(stranger,))) as visit:
        for page in ("object", "file"):
            visit.open(f"/storage/{page}?path={path}", status=404)
            assert "secret" not in visit.page.content()


def test_an_administrator_of_all_sees_how_much_lies_where(
    browser: Browser,
    server: str,
    driver: RunDriver,
    make_token: Callable[..., str],
    put: Callable[[str, bytes], str],
) -> None:
    path = put("large.bin", bytes(5_000_000))
    token = make_token(READ, ADMIN, tenants=(EVERY_TENANT,))
    with visiting(browser, server, driver.tenant, token) as visit:
        visit.open("/storage")
        visit.page.get_by_role("link", name="how much").click()
        visit.see("outputs, files and logs of attempts")
        visit.page.get_by_label("Paths that begin with").fill(path.rpartition("/")[0])
        visit.page.get_by_role("button", name="Measure").click()
        visit.see("4.8 MiB")
        visit.page.get_by_role("link", name="large.bin").wait_for()
        visit.axe()
