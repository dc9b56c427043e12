-- What is remembered of a Configuration that delivered, as long as its present version does not (`routing.stale`).
--
-- What others may rely on: a row is written in the transaction that changes the Configuration's status, and goes with the
-- Configuration.
create table past_route (
  project       text not null,
  configuration text not null,
  is_in_force   integer not null,  -- 1: it still has a webhook, be it one that is held
  past          blob not null,     -- JSON: `routing.stale.Past`
  primary key (project, configuration)
) strict, without rowid;
