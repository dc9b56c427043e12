-- Rows that are written before they count, so that a large change is shown by one short transaction.
--
-- What others may rely on:
-- - `<name>_row` is the table, and `<name>` a view of what counts at the present revision (`fact.revision`), with the
--   columns that the table of this name had before. Read the views; write the tables.
-- - `since` is the revision from which a row counts: 0 in what an ordinary commit writes, else the number that was set
--   aside for the change that was written ahead. `until` is the revision from which it does not any more; null: it goes
--   on counting. So a row counts when `since <= revision` and not `until <= revision`. `version_row` and `audit_row`
--   have no `until`: what they hold once counts for ever.
-- - Of a key, at most one row counts at any revision. What does not count any more is deleted in the background.
-- - `listing.number` stands for a repository in `source_file_row`, `wanted_row` and `held_row`: a whole list that is
--   written anew has a number of its own, and one update shows it in place of the list before.

-- Changes that are being written ahead, or are to be swept away: those that were dropped, or that a process left.
create table staged (
  number     integer primary key,  -- the revision at which it is to count
  versions   integer not null,     -- the largest `version_row.id` before it
  audits     integer not null,     -- the largest `audit_row.id` before it
  run        text,                 -- whose statuses it wrote
  dropped    integer not null      -- 1: it can no longer be shown
) strict;

-- The last number that was set aside, for a change or for a listing.
insert into fact (key, value) values ('reserved', 0);

-- Versions and audit events only ever come.
alter table version rename to version_row;
alter table version_row add column since integer not null default 0;

alter table audit rename to audit_row;
alter table audit_row add column since integer not null default 0;

create table resource_row (
  project     text not null references project (name),
  kind        text not null,
  name        text not null,
  since       integer not null,
  until       integer,
  version     integer not null,
  resource_id text not null,
  digest      blob not null,
  owner       text,              -- a repository; null: the API
  path        text,              -- where it stands now in that repository
  line        integer,
  protected   integer not null,  -- 1: the label service/prune is `disabled`
  incomplete  integer not null,  -- 1: its status says what is missing
  status      blob not null,     -- JSON; it changes without a new version
  drifted     integer not null,  -- 1: the API stored it while its owner was suspended
  primary key (project, kind, name, since)
) strict, without rowid;

insert into resource_row
select project, kind, name, 0, null, version, resource_id, digest, owner, path, line, protected, incomplete, status,
       drifted
from resource order by project, kind, name;
drop table resource;

-- Not unique, since one resource may have rows of two revisions: the statements that write look for another resource
-- with the same id.
create index resource_by_id on resource_row (project, resource_id);
create index resource_incomplete on resource_row (owner, kind, name) where incomplete = 1;
create index resource_by_owner on resource_row (owner, project, path, kind, name, until) where owner is not null;
create index resource_ended on resource_row (until) where until is not null;

create table reference_row (
  project     text not null,
  kind        text not null,
  name        text not null,
  target_kind text not null,
  target_name text not null,
  since       integer not null,
  until       integer,
  primary key (project, kind, name, target_kind, target_name, since)
) strict, without rowid;

insert into reference_row
select project, kind, name, target_kind, target_name, 0, null
from reference order by project, kind, name, target_kind, target_name;
drop table reference;

create index reference_by_target on reference_row (project, target_kind, target_name, kind, name, until);
create index reference_ended on reference_row (until) where until is not null;

-- The lists of what a repository's applied head holds (`index`) and of what stays though it does not (`held`).
create table listing (
  repository text not null,
  what       text not null,
  number     integer not null,
  primary key (repository, what)
) strict, without rowid;

create index listing_by_number on listing (number);

insert into listing (repository, what, number)
select repository, what, row_number() over (order by repository, what)
from (select repository, 'index' as what from source_file
      union select repository, 'index' from wanted
      union select repository, 'held' from held);
update fact set value = (select count(*) from listing) where key = 'reserved';

create table source_file_row (
  listing integer not null,
  path    text not null,
  since   integer not null,
  until   integer,
  blob    text not null,
  vacant  text,                  -- why it holds nothing although its name says that it could: a link, empty
  given   text,                  -- keys that it held before, as JSON, when they are not stored from there
  primary key (listing, path, since)
) strict, without rowid;

insert into source_file_row
select l.number, f.path, 0, null, f.blob, f.vacant, f.given
from source_file f join listing l on l.repository = f.repository and l.what = 'index' order by l.number, f.path;
drop table source_file;

create index source_file_vacant on source_file_row (listing, path) where vacant is not null;
create index source_file_given on source_file_row (listing, path) where given is not null;
create index source_file_ended on source_file_row (until) where until is not null;

create table wanted_row (
  listing     integer not null,
  path        text not null,
  position    integer not null,
  since       integer not null,
  until       integer,
  kind        text,
  name        text,
  digest      blob,
  unconverged text,              -- `waiting`: the store may let it in one day; `refused`: it will not
  primary key (listing, path, position, since)
) strict, without rowid;

insert into wanted_row
select l.number, w.path, w.position, 0, null, w.kind, w.name, w.digest, w.unconverged
from wanted w join listing l on l.repository = w.repository and l.what = 'index' order by l.number, w.path, w.position;
drop table wanted;

create index wanted_by_key on wanted_row (listing, kind, name, until);
create index wanted_unconverged on wanted_row (listing, path) where unconverged is not null;
create index wanted_ended on wanted_row (until) where until is not null;

create table held_row (
  listing integer not null,
  why     text not null,
  kind    text not null,
  name    text not null,
  primary key (listing, why, kind, name)
) strict, without rowid;

insert into held_row
select l.number, h.why, h.kind, h.name
from held h join listing l on l.repository = h.repository and l.what = 'held' order by l.number, h.why, h.kind, h.name;
drop table held;

create view version as
select id, project, kind, name, version, resource_id, digest, body, secrets, source, actor, run, request, created_at
from version_row
where since <= (select value from fact where key = 'revision');

create view audit as
select id, at, project, actor, action, kind, name, version_before, version_after, run, request, detail
from audit_row
where since <= (select value from fact where key = 'revision');

create view resource as
select project, kind, name, version, resource_id, digest, owner, path, line, protected, incomplete, status, drifted
from resource_row
where since <= (select value from fact where key = 'revision')
  and ifnull(until > (select value from fact where key = 'revision'), 1);

create view reference as
select project, kind, name, target_kind, target_name
from reference_row
where since <= (select value from fact where key = 'revision')
  and ifnull(until > (select value from fact where key = 'revision'), 1);

create view source_file as
select l.repository, f.path, f.blob, f.vacant, f.given
from listing l join source_file_row f on f.listing = l.number
where l.what = 'index' and f.since <= (select value from fact where key = 'revision')
  and ifnull(f.until > (select value from fact where key = 'revision'), 1);

create view wanted as
select l.repository, w.path, w.position, w.kind, w.name, w.digest, w.unconverged
from listing l join wanted_row w on w.listing = l.number
where l.what = 'index' and w.since <= (select value from fact where key = 'revision')
  and ifnull(w.until > (select value from fact where key = 'revision'), 1);

create view held as
select l.repository, h.why, h.kind, h.name
from listing l join held_row h on h.listing = l.number
where l.what = 'held';
