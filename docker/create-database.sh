#!/bin/sh
# Creates PipeWeave's role and its database when the container of docker-compose.yml starts for the first time. The role
# owns its database and nothing else: the code of tasks connects as this role, and a superuser could run programs.
set -eu
psql --no-psqlrc --set ON_ERROR_STOP=1 --set password="$PIPEWEAVE_PASSWORD" --username "${POSTGRES_USER:-postgres}" \
  --dbname "${POSTGRES_DB:-postgres}" <<'SQL'
CREATE ROLE pipeweave LOGIN PASSWORD :'password';
CREATE DATABASE pipeweave OWNER pipeweave;
SQL
