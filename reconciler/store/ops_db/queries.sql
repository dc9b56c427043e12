-- Every statement that is run on `ops.db`, by name.

-- name: fact
select value from fact where key = ?;

-- name: make_fact
insert or ignore into fact (key, value) values (?, ?);

-- name: all_sessions
select digest, user, losses, created_at, seen_at, id_token from session order by created_at, digest;

-- name: insert_session
insert into session (digest, user, losses, created_at, seen_at, id_token) values (?, ?, ?, ?, ?, ?);

-- name: touch_session
update session set seen_at = ? where digest = ?;

-- name: remove_session
delete from session where digest = ?;

-- name: all_notifications
select id, body from notification order by id;

-- name: put_notification
insert into notification (id, body) values (?, ?) on conflict (id) do update set body = excluded.body;

-- name: remove_notification
delete from notification where id = ?;

-- name: all_notification_statuses
select notification, user, status from notification_status order by notification, user;

-- name: put_notification_status
insert into notification_status (notification, user, status) values (?, ?, ?)
on conflict (notification, user) do update set status = excluded.status;

-- name: remove_notification_status
delete from notification_status where notification = ? and user = ?;

-- name: remove_notification_statuses
delete from notification_status where notification = ?;

-- name: remove_read_statuses
delete from notification_status where notification = ? and status = 'read';

-- The next two run in a backup: old sessions, and the key that sealed sign-ins in progress, must not become valid
-- again.
-- name: forget_sessions
delete from session;

-- name: forget_flow_key
delete from fact where key = 'flow_key';

-- Of `store.db` as well.
-- name: tables
select name from sqlite_schema where type = 'table' and name not like 'sqlite_%' order by name;
