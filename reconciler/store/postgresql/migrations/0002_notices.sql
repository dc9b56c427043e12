-- The numbers of notices have no gaps, and their order is that of the transactions: the row of `notice_count` is locked
-- from the number to the end of the transaction, and taken last, so that nobody waits for a large commit.
create table notice_count (
  number bigint not null
);

insert into notice_count (number) values (0);

drop table notice;

create table notice (
  number bigint primary key,
  at     timestamptz not null,
  writer text collate "C" not null,  -- the process, which knows its own changes
  kind   text collate "C" not null,
  body   bytea not null              -- `reconciler.store.notices`
);
