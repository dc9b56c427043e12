-- The audit is chained: each transaction that shows events adds a link, whose hash covers them and the link before.
--
-- What others may rely on:
-- - The events of a link are those rows of `audit_row` that are within one of its spans and have the span's `since`: the
--   events of the transaction itself have 0, those that were written ahead the number of that change, or its negative
--   where the change had nothing else to show. Within one number a span holds nothing that is not the link's.
-- - What is hashed stands in `store.chaining`. A row changes by redaction alone, which is told in `audit_rewrite`.
-- - Links go from the beginning on, and `audit_anchor` has the last that went. Spans up to it are being swept.

alter table audit_row add column address text;  -- where a request came from that the event alone tells of
alter table audit_row add column salt blob;     -- hashed with it, and gone with what is redacted: nobody guesses by the hash

-- The number that the next events follow is above all that ever were, see `audit_anchor.last_event`.
create index audit_by_name on audit_row (name);

create table audit_link (
  number   integer primary key,  -- without a gap, in the order of the commits
  hash     blob not null,
  events   integer not null,
  first_at text not null,        -- the earliest instant of its events; empty without events
  last_at  text not null,
  address  text,                 -- where the request came from that made them
  checked  integer not null      -- 0: the events from before there was a chain, as link 1
) strict;

create table audit_span (
  link  integer not null,
  first integer not null,        -- `audit_row.id`
  last  integer not null,
  since integer not null,
  primary key (link, first)
) strict, without rowid;

create index audit_span_by_first on audit_span (since, first);

-- Events whose text was redacted: the hashes of the row before and after, which the link of the redaction covers.
create table audit_rewrite (
  event  integer not null,       -- `audit_row.id`
  link   integer not null,
  before blob not null,
  after  blob not null,
  primary key (event, link)
) strict, without rowid;

create index audit_rewrite_by_link on audit_rewrite (link);

-- One row: the last link that went, or number 0 and a hash of zeros.
create table audit_anchor (
  id         integer primary key check (id = 1),
  number     integer not null,
  hash       blob not null,
  events     integer not null,   -- that went so far
  last_event integer not null    -- the largest `audit_row.id` that went
) strict;

insert into audit_anchor (id, number, hash, events, last_event) values (1, 0, zeroblob(32), 0, 0);

-- What was there before has no hash; it is one link, so that it is read and removed as all else.
update audit_row set since = 0 where since <> 0 and since <= (select value from fact where key = 'revision');

insert into audit_link (number, hash, events, first_at, last_at, address, checked)
select 1, zeroblob(32), count(*), min(at), max(at), null, 0 from audit having count(*) > 0;

insert into audit_span (link, first, last, since)
select 1, min(id), max(id), 0 from audit having count(*) > 0;

drop view audit;

create view audit as
select a.id, ifnull(a.at, o.created_at) as at, a.project, ifnull(a.actor, o.actor) as actor, a.action, a.kind, a.name,
       a.version_before, a.version_after, ifnull(a.run, o.run) as run, ifnull(a.request, o.request) as request, a.detail,
       a.address
from audit_row a
left join origin o on o.id = a.origin
where a.since <= (select value from fact where key = 'revision');
