-- What Collectors get of the Configurations that are rendered for them.
--
-- What others may rely on: a row goes with its Configuration, and all of a project go when a version of it is rewritten.
create table rendering (
  project       text not null,
  configuration text not null,
  program       text not null,  -- the version that rendered it, and which variables it must not use
  inputs        text not null,  -- what it was made of, as the statement `unrendered` computes it
  said          blob,           -- JSON: `status.rendering`, with the hash of the body; null: it is not rendered
  body          blob,           -- what is in force, which may be older than `inputs`
  primary key (project, configuration)
) strict;
