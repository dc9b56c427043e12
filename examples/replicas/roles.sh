#!/bin/sh
# Makes the database and its two roles. One owns the tables; the other, of the worker, gets from each start what it reads.
# PostgreSQL's image runs it once, when its volume is empty; PGHOST and other variables of libpq lead elsewhere.
set -eu
secrets=${SECRETS:-/run/secrets}
psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --username "${POSTGRES_USER:-postgres}" --dbname postgres \
  --set owner_password="$(cat "$secrets/reconciler_password")" \
  --set worker_password="$(cat "$secrets/worker_password")" <<'SQL'
create role reconciler login password :'owner_password';
create role reconciler_worker login password :'worker_password';
create database reconciler owner reconciler template template0 encoding 'UTF8' lc_collate 'C' lc_ctype 'C';
revoke all on database reconciler from public;
grant connect on database reconciler to reconciler_worker;
\connect reconciler
revoke all on schema public from public;
grant all on schema public to reconciler;
SQL
