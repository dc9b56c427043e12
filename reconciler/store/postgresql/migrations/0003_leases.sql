-- oldest program: 1
-- The process behind a replica's name, and a digest of the repositories in its settings.
alter table replica add column process text collate "C" not null default '';
alter table replica add column settings text collate "C" not null default '';
