-- What Collectors got before what they get now.
--
-- What others may rely on: both columns are null until another body replaces one, and null again with the body. They
-- go with the row, so nothing is left in them that is redacted or masked.
alter table rendering add column previous blob;
alter table rendering add column previous_hash text;  -- of `previous`, as it was said while that was in force
