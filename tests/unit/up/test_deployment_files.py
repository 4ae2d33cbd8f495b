"""The compose file, the Procfile and the image start what exists."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import tomllib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from support.pages import ROOT

from pipeweave.cli import COMMANDS, main
from pipeweave.settings import Settings, explain, load
from pipeweave.storage import Backends, S3Storage
from pipeweave.workers.process.launch import GRACE_S

COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
ONCE = ("migrate", "bucket")
OURS = (*ONCE, "api", "worker", "beat", "flower")
WITH_DATABASE = tuple(name for name in OURS if name != "flower")
PROCFILE = dict(line.split(": ", 1) for line in (ROOT / "Procfile").read_text().splitlines())

every_service = pytest.mark.parametrize("name", SERVICES)


def test_the_compose_file_has_every_part() -> None:
    assert {*OURS, "postgres", "valkey", "s3"} <= SERVICES.keys()


@every_service
def test_every_service_says_whether_it_is_healthy(name: str) -> None:
    check = SERVICES[name]["healthcheck"]
    assert check == {"disable": True} if name in ONCE else check["test"][0] in {"CMD", "CMD-SHELL"}


@every_service
def test_every_image_has_a_version(name: str) -> None:
    image = SERVICES[name]["image"]
    assert re.search(r":(?!latest$)[\w.${}:-]+$", image), image


def test_the_worker_gives_back_what_runs_before_its_container_is_killed() -> None:
    assert float(SERVICES["worker"]["stop_grace_period"].removesuffix("s")) > GRACE_S


@pytest.mark.parametrize(
    "command", [*(SERVICES[name]["command"] for name in OURS), *PROCFILE.values()], ids=str
)
def test_every_command_exists(command: str | list[str]) -> None:
    program, *words = shlex.split(command) if isinstance(command, str) else command
    if program == "pipeweave":
        assert words[0] in COMMANDS
    elif program == "python":
        assert words[0] == "-m"
        assert find_spec(f"{words[1]}.__main__")
    else:
        assert (program, words[:2]) == ("celery", ["--app", "pipeweave.workers.app"])


def test_our_services_wait_for_the_migration_and_the_bucket() -> None:
    for name in set(OURS) - set(ONCE):
        for once in ONCE:
            assert SERVICES[name]["depends_on"][once] == {"condition": "service_completed_successfully"}
    assert SERVICES["migrate"]["depends_on"]["postgres"] == {"condition": "service_healthy"}
    assert SERVICES["bucket"]["depends_on"]["s3"] == {"condition": "service_healthy"}


def test_no_secret_has_a_default() -> None:
    text = (ROOT / "docker-compose.yml").read_text()
    secret = re.compile(r"\$\{(\w*(?:PASSWORD|SECRET)\w*)(.*?)\}")
    assert secret.findall(text)
    assert all(rest.startswith(":?") for _, rest in secret.findall(text))


@pytest.mark.parametrize("name", WITH_DATABASE)
def test_the_settings_of_our_services_are_valid(name: str) -> None:
    assert settings_of(name).database_url


def test_flower_gets_the_broker_and_no_other_secret() -> None:
    assert settings_of("flower").broker_url
    assert set(re.findall(r"\$\{(\w+)", str(SERVICES["flower"]["environment"]))) == {
        *("VALKEY_PASSWORD", "FLOWER_PASSWORD")
    }


@every_service
def test_every_container_has_few_rights_and_a_memory_limit(name: str) -> None:
    service = SERVICES[name]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert re.fullmatch(r"\$\{\w+_MEMORY:-\dg\}", service["mem_limit"])


def test_our_services_are_no_superuser_of_postgres() -> None:
    """The image makes POSTGRES_USER a superuser, and with it everyone who has POSTGRES_PASSWORD."""
    environment = SERVICES["postgres"]["environment"]
    assert "POSTGRES_USER" not in environment
    assert "POSTGRES_ADMIN_PASSWORD" in environment["POSTGRES_PASSWORD"]
    assert not any("POSTGRES_ADMIN_PASSWORD" in str(SERVICES[name]) for name in OURS)
    (script,) = [each.split(":") for each in SERVICES["postgres"]["volumes"] if "initdb.d" in each]
    assert (ROOT / script[0]).is_file()


@pytest.mark.parametrize("name", WITH_DATABASE)
def test_our_services_keep_large_values_in_the_store_of_the_compose_file(name: str) -> None:
    storage = Backends.of(settings_of(name)).default
    assert isinstance(storage, S3Storage)
    bucket, store = storage.bucket, {k: _filled(v) for k, v in SERVICES["s3"]["environment"].items()}
    assert (bucket.access_key, bucket.secret_key) == (store["ROOT_ACCESS_KEY"], store["ROOT_SECRET_KEY"])
    port = SERVICES["s3"]["command"][SERVICES["s3"]["command"].index("--port") + 1]
    assert (bucket.endpoint, bucket.is_path_style) == (f"http://s3{port}", True)


def settings_of(name: str) -> Settings:
    return load({key: _filled(str(value)) for key, value in SERVICES[name]["environment"].items()})


def _filled(text: str) -> str:
    """What compose makes of it: the default where there is one, else a secret."""
    return re.sub(
        r"\$\{\w+(?::(\?|-)([^}]*))?\}", lambda found: found[2] if found[1] == "-" else "5" * 64, text
    )


@pytest.mark.parametrize("name", [*OURS, "valkey"])
def test_nothing_but_loopback_is_published(name: str) -> None:
    assert all(port.startswith("127.0.0.1:") for port in SERVICES[name].get("ports", []))


def test_the_labels_of_the_image_are_those_of_the_package() -> None:
    labels = dict(
        re.findall(r'org\.opencontainers\.image\.(\w+)="([^"]*)"', (ROOT / "Dockerfile").read_text())
    )
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert labels["title"].lower() == project["name"]
    assert (labels["description"], labels["licenses"]) == (project["description"], project["license"])


def test_the_image_runs_as_an_ordinary_user_and_is_built_from_locked_files() -> None:
    text = (ROOT / "Dockerfile").read_text()
    final = text.rpartition("\nFROM ")[2]
    assert re.search(r"^USER (?!root)\w+$", final, re.MULTILINE)
    assert "HEALTHCHECK" in final
    assert "--require-hashes -r requirements-image.lock" in text


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-image.lock"])
def test_a_locked_file_has_a_hash_for_every_package_and_no_address(name: str) -> None:
    entries = re.split(r"\n(?=\S)", (ROOT / name).read_text().strip())
    assert all("--hash=sha256:" in entry for entry in entries)
    assert "://" not in "".join(entries)


def test_the_image_installs_the_same_versions_as_the_developers() -> None:
    def versions(name: str) -> set[str]:
        return set(re.findall(r"^[\w.-]+==[^\s;]+", (ROOT / name).read_text(), re.MULTILINE))

    assert versions("requirements-image.lock") <= versions("requirements.lock")


def test_every_dependency_is_locked_in_a_version_that_fits() -> None:
    document = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = document["project"]["optional-dependencies"]
    groups = [document["project"]["dependencies"], *extras.values(), *document["dependency-groups"].values()]
    wanted = [Requirement(each) for group in groups for each in group if not each.startswith("pipeweave[")]
    locked = dict(
        re.findall(r"^([\w.-]+)==([^\s;]+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    )
    stale = [
        str(each) for each in wanted if not each.specifier.contains(locked[canonicalize_name(each.name)])
    ]
    assert not stale, "run `make lock`"


def test_every_health_check_in_python_can_be_compiled() -> None:
    image = re.search(r"^HEALTHCHECK .*\\\n +CMD (\[.*\])$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert image
    checks = [json.loads(image[1]), *(SERVICES[name]["healthcheck"].get("test", []) for name in SERVICES)]
    programs = [check[check.index("-c") + 1] for check in checks if "-c" in check]
    assert len(programs) == 3
    for program in programs:
        compile(program, "healthcheck", "exec")


UNITS = sorted((ROOT / "docs/systemd").glob("*.service"))


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_the_units_of_systemd_start_commands_that_there_are(unit: Path) -> None:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(unit)
    service = parser["Service"]
    program, name, *arguments = service["ExecStart"].split()
    assert program.endswith("/bin/pipeweave")
    command = main.get_command(click.Context(main), name)
    assert command is not None
    known = {option for each in command.params for option in each.opts}
    assert {each for each in arguments if each.startswith("--")} <= known
    assert service["Restart"] == "always" and "MemoryMax" in service
    caps = [service["Environment"].split("=")] if "Environment" in service else []
    assert all(shown({})[cap] == value for cap, value in caps), "the caps of a unit are the defaults"
    assert {each.name.split("-")[1].split("@")[0].split(".")[0] for each in UNITS} == {
        "api",
        "beat",
        "worker",
    }


def shown(environ: dict[str, str]) -> dict[str, str | None]:
    return {row.name: row.value for row in explain(environ)}
