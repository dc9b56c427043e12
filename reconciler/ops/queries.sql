-- The statements of upkeep, by name, as in reconciler/store/queries.sql. They read, save for the last two, which run in a
-- copy that nobody uses yet.

-- name: tables
select name from sqlite_schema where type = 'table' and name not like 'sqlite_%' order by name;

-- What opens something and cannot be asked back must not come alive again: who was signed in, and the key that sealed
-- what a browser carries to a provider.
-- name: forget_sessions
delete from session;

-- name: forget_flow_key
delete from fact where key = 'flow_key';
