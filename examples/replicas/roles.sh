#!/bin/sh
# Makes the database and its two roles: one owns the tables, the other, for the worker, may only read them.
# PostgreSQL's image runs it once, when its volume is empty; PGHOST and other variables of libpq lead elsewhere.
set -eu
secrets=${SECRETS:-/run/secrets}
psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --username "${POSTGRES_USER:-postgres}" --dbname postgres \
  --set owner_password="$(cat "$secrets/reconciler_password")" \
  --set worker_password="$(cat "$secrets/worker_password")" <<'SQL'
create role reconciler login password :'owner_password';
create role reconciler_worker login password :'worker_password' connection limit 12;
alter role reconciler_worker set default_transaction_read_only = on;
create database reconciler owner reconciler template template0 encoding 'UTF8' lc_collate 'C' lc_ctype 'C';
revoke all on database reconciler from public;
grant connect on database reconciler to reconciler_worker;
\connect reconciler
revoke all on schema public from public;
grant all on schema public to reconciler;
grant usage on schema public to reconciler_worker;
alter default privileges for role reconciler in schema public grant select on tables to reconciler_worker;
SQL
