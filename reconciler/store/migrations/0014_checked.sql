-- Every version has a checksum, and the revision is the one answer to the question if the store changed.
--
-- What others may rely on:
-- - `version.checksum` is never null. A version from before there were checksums gets the one of what it holds; one that is
--   not even JSON gets -1, which is no checksum: it is damaged.
-- - `project.changed` is gone.

update version
set checksum = case when json_valid(cast(body as text)) then checksum_of(body, secrets) else -1 end
where checksum is null;

drop index version_unchecked;

alter table project drop column changed;
