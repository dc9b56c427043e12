-- A checksum with each stored version, so that damage on the disk is found when a version is read or compared.
--
-- What others may rely on:
-- - `checksum` is the CRC-32 of a version's body and secrets (`store.database`). A version that does not have its
--   checksum is damaged, and nobody takes it for what was stored.
-- - null: an earlier version of the program wrote it, and nobody has judged it yet. The daemon does so in the background,
--   a few at a time (`store.database`), since damage from before this column is found by what a body says of itself. One
--   that is not sound gets -1, which is no checksum.

alter table version_row add column checksum integer;

create index version_unchecked on version_row (id) where checksum is null;

drop view version;

create view version as
select id, project, kind, name, version, origin, path, line, secrets, body, checksum
from version_row
where since <= (select value from fact where key = 'revision');
