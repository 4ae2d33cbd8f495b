"""Values in AWS Secrets Manager.

boto3 is an extra (`pip install 'pipeweave[s3]'`) and slow to import, so it is imported on first use.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from importlib.util import find_spec
from typing import Any

from pipeweave.errors import InvalidSetting, SecretDenied, Unavailable
from pipeweave.secrets.provider import readable

# With one further try, an answer takes no longer than about 10 s.
CONNECT_TIMEOUT_S = 2.0
READ_TIMEOUT_S = 3.0

_MISSING = {"ResourceNotFoundException", "InvalidRequestException", "ValidationException"}
_DENIED = {"AccessDeniedException", "UnrecognizedClientException", "InvalidSignatureException"}


class AwsSecrets:
    """The secrets of one account and region, by their names.

    Args:
        path: what all their names begin with, such as `pipeweave/`.
        endpoint: of a store with the same protocol; None for Amazon's.
        credentials: accessKeyId, secretAccessKey and sessionToken; None for those of the machine.

    Raises:
        InvalidSetting: boto3 is not installed.
    """

    def __init__(
        self, region: str, path: str, endpoint: str | None, credentials: Mapping[str, str] | None
    ) -> None:
        if find_spec("boto3") is None:
            raise InvalidSetting(
                "SECRETS names aws-secrets-manager, and boto3 is not installed",
                hint="pip install 'pipeweave[s3]'",
            )
        self._region = region
        self._path = path
        self._endpoint = endpoint
        self._credentials = credentials or {}

    def get(self, place: str) -> str | None:
        from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

        try:
            answer = self._client.get_secret_value(SecretId=f"{self._path}{place}")
        except ClientError as error:
            _check_missing(place, error.response.get("Error", {}).get("Code", ""))
            return None
        except NoCredentialsError:
            raise SecretDenied("this process has no credentials for AWS Secrets Manager") from None
        except BotoCoreError as error:
            raise Unavailable(f"AWS Secrets Manager cannot be reached: {type(error).__name__}") from None
        content = answer.get("SecretString")
        return readable(answer["SecretBinary"] if content is None else content.encode(), place)

    @cached_property
    def _client(self) -> Any:
        from boto3.session import Session
        from botocore.config import Config

        config = Config(
            connect_timeout=CONNECT_TIMEOUT_S,
            read_timeout=READ_TIMEOUT_S,
            retries={"mode": "standard", "total_max_attempts": 2},
        )
        return Session().client(
            "secretsmanager",
            region_name=self._region,
            endpoint_url=self._endpoint,
            aws_access_key_id=self._credentials.get("accessKeyId"),
            aws_secret_access_key=self._credentials.get("secretAccessKey"),
            aws_session_token=self._credentials.get("sessionToken"),
            config=config,
        )


def _check_missing(place: str, code: str) -> None:
    if code in _DENIED:
        raise SecretDenied(f"AWS Secrets Manager refuses the secret {place!r}: {code}")
    if code not in _MISSING:
        raise Unavailable(f"AWS Secrets Manager does not give the secret {place!r}: {code}")
