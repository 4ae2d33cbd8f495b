"""Choose what a command or a client connects to. Every command uses these functions, in this order:

1. what the caller gives: flags of a command, arguments of `Client`; `--data-dir` names a stack;
2. the environment;
3. the stack that `pipeweave up` runs in this folder or in a folder above it (`stack_file`).

A stack is taken as a whole or not at all: neither its token nor its broker is used with another deployment,
and a process that joins it has its secret key, its storage and all that its processes must share. The tenant
is the caller's choice: a flag, else PIPEWEAVE_TENANT, else the stack's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from pipeweave.errors import FieldError, InvalidInput, InvalidSetting, Unavailable
from pipeweave.ids import check_name
from pipeweave.settings import COMMON, Settings, load_common, readers, stack_file
from pipeweave.settings.stack_file import StackFile

_START = "start a stack here with `pipeweave up`"
NO_ORCHESTRATOR = (
    f"give its URL (--url) or a data directory (--data-dir), set PIPEWEAVE_ORCHESTRATOR_URL, or {_START}"
)
NO_DATABASE = f"give its URL (--database-url) or a data directory (--data-dir), set DATABASE_URL, or {_START}"
NO_BROKER = f"set BROKER_URL, name a stack by PIPEWEAVE_DATA_DIR, or {_START}"
NO_SERVERS = f"set DATABASE_URL and BROKER_URL, give a data directory (--data-dir), or {_START}"


@dataclass(frozen=True, slots=True)
class OrchestratorAddress:
    """How to reach an orchestrator.

    Args:
        url: the API's URL.
        token: bearer token; None to send no token.
        tenant: the tenant of the requests; None for the token's only tenant.
    """

    url: str
    token: str | None
    tenant: str | None


def orchestrator(
    settings: Settings,
    *,
    url: str | None = None,
    token: str | None = None,
    tenant: str | None = None,
    data_dir: Path | None = None,
) -> OrchestratorAddress:
    """Choose the orchestrator, the token and the tenant.

    Raises:
        InvalidInput: `url` and `data_dir` are both given.
        Unavailable: nothing names an orchestrator, or no stack runs in the data directory.
    """
    address = configured_orchestrator(settings, url=url, token=token, tenant=tenant, data_dir=data_dir)
    if address is None:
        raise no_orchestrator(settings)
    return address


def no_orchestrator(settings: Settings) -> Unavailable:
    """The error of what needs an orchestrator where nothing names one."""
    folder = stack_file.folder_of(settings.data_dir)
    return stack_file.missing("no orchestrator is configured", NO_ORCHESTRATOR, folder)


def configured_orchestrator(
    settings: Settings,
    *,
    url: str | None = None,
    token: str | None = None,
    tenant: str | None = None,
    data_dir: Path | None = None,
) -> OrchestratorAddress | None:
    """As `orchestrator`, but None where nothing names one."""
    if url and data_dir:
        raise InvalidInput("--url and --data-dir each name an orchestrator", hint="give one of them")
    tenant = tenant or settings.chosen_tenant
    if data_dir:
        return _of_stack(stack_file.read(data_dir), token, tenant)
    token = token or settings.api_token
    address = settings.orchestrator_url if url is None else url
    if address is not None:
        return OrchestratorAddress(address, token, tenant)
    if stack := stack_file.find(settings.data_dir):
        return _of_stack(stack, token, tenant)
    return None


def database(settings: Settings, database_url: str | None = None, data_dir: Path | None = None) -> str:
    """Choose the URL of the database.

    Raises:
        InvalidInput: `database_url` is invalid, or given together with `data_dir`.
        InvalidSetting: nothing names a database.
        Unavailable: no stack runs in the data directory.
    """
    if database_url and data_dir:
        raise InvalidInput("--database-url and --data-dir each name a database", hint="give one of them")
    if data_dir:
        return stack_file.read(data_dir).database_url
    if database_url:
        return _checked(database_url)
    if settings.database_url:
        return settings.database_url
    if stack := stack_file.find(settings.data_dir):
        return stack.database_url
    raise InvalidSetting("no database is configured", errors=[_is_not_set("DATABASE_URL")], hint=NO_DATABASE)


def deployment(
    settings: Settings, *, database_url: str | None = None, data_dir: Path | None = None
) -> Settings:
    """Complete the settings for an operator's command, which needs a database.

    Raises:
        InvalidInput, InvalidSetting, Unavailable: as `database`.
    """
    url = database(settings, database_url, data_dir)
    stack = stack_file.read(data_dir) if data_dir else stack_file.find(settings.data_dir)
    if stack and stack.database_url == url:
        return _joined(settings, stack, is_named=data_dir is not None)
    # A stack that runs here is another deployment.
    return replace(settings, database_url=url)


def servers(settings: Settings, data_dir: Path | None = None, tenant: str | None = None) -> Settings:
    """Complete the settings for a process of a deployment, which needs a database and a broker.

    Args:
        tenant: whom it works for; None for what PIPEWEAVE_TENANT or the stack says.

    Raises:
        InvalidId: the text is not a valid tenant id.
        InvalidSetting: nothing names them, or the environment names only one of them.
        Unavailable: no stack runs in the data directory.
    """
    if tenant:
        chosen = check_name(tenant, "tenant")
        settings = replace(settings, tenant=chosen, named=settings.named | {"tenant"})
    if data_dir:
        return _joined(settings, stack_file.read(data_dir), is_named=True)
    named = {"DATABASE_URL": settings.database_url, "BROKER_URL": settings.broker_url}
    missing = [name for name, url in named.items() if not url]
    # A serverless deployment may do without a broker.
    is_serverless = settings.mode == "serverless" and settings.database_url is not None
    stack = stack_file.find(settings.data_dir)
    if stack and (len(missing) == len(named) or settings.database_url == stack.database_url):
        return _joined(settings, stack)
    if not missing or is_serverless:
        return settings
    hint = NO_SERVERS
    if stack:
        is_set = next(iter(named.keys() - missing))
        hint = f"set it, too; or unset {is_set} to use the stack in {stack.folder}"
    raise InvalidSetting(
        f"{missing[0]} is not set" if len(missing) == 1 else "no database and no broker are configured",
        errors=[_is_not_set(name) for name in missing],
        hint=hint,
    )


def broker(settings: Settings) -> Settings:
    """Complete the settings for a tool that talks to the broker alone, such as Flower.

    Raises:
        InvalidSetting: nothing names a broker, or the environment names only a database.
    """
    if settings.broker_url:
        return settings
    if settings.database_url is None and (stack := stack_file.find(settings.data_dir)):
        return _joined(settings, stack)
    raise InvalidSetting("BROKER_URL is not set", errors=[_is_not_set("BROKER_URL")], hint=NO_BROKER)


def _of_stack(stack: StackFile, token: str | None, tenant: str | None) -> OrchestratorAddress:
    if token:
        # The tenant of the stack's own token says nothing about another token.
        return OrchestratorAddress(stack.url, token, tenant)
    return OrchestratorAddress(stack.url, stack.token, tenant or stack.tenant)


def _joined(settings: Settings, stack: StackFile, *, is_named: bool = False) -> Settings:
    """The settings of a process that joins a stack.

    Args:
        is_named: the caller named the stack: what its processes share comes from it, as its servers do. A
            stack that was found only adds what the environment does not set.
    """
    theirs = load_common(stack.settings)
    shared = {name: getattr(theirs, name) for name in COMMON if is_named or name not in settings.named}
    if "secret_key" in shared:
        shared["secret_key"] = stack.secret_key or settings.secret_key
    return replace(
        settings,
        **shared,
        database_url=stack.database_url,
        broker_url=stack.broker_url,
        tenant=settings.chosen_tenant or stack.tenant,
        orchestrator_url=stack.url,
        api_token=stack.token,
        data_dir=str(stack.folder),
        named=(settings.named - shared.keys()) | (theirs.named & shared.keys()) | {"tenant"},
    )


def _is_not_set(name: str) -> FieldError:
    return FieldError(name, "is not set", "required")


def _checked(database_url: str) -> str:
    try:
        return str(readers.database_url(database_url))
    except readers.UnreadableSetting as error:
        raise InvalidInput(
            "--database-url cannot be used", errors=[FieldError("database-url", str(error))]
        ) from error
