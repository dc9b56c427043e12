-- Who alerts went to at the last start, so that a target that is new is told of what is open.

create table alert_target (
  name text primary key  -- of the settings
) strict, without rowid;
