-- Notifications, what people did with them, and alerts that are still to be sent. Without them, what is wrong is found
-- again by looking.

create table notification (
  id   text primary key,     -- a ULID: by it they are sorted by when they were opened
  body blob not null         -- JSON, as `reconciler.notifying.keeping` writes it
) strict, without rowid;

create table notification_status (
  notification text not null,
  user         text not null,  -- an id of the store, or a name of nobody who stands there
  status       text not null,  -- `read` or `dismissed`; unread is no row
  primary key (notification, user)
) strict, without rowid;

create table alert (
  id       text primary key,   -- a ULID: by it they are sent in the order in which they were made
  target   text not null,      -- a name of the settings
  body     blob not null,      -- as it is sent, at each attempt
  made_at  text not null
) strict, without rowid;
