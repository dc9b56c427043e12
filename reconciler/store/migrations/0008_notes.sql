-- What else to know of a status of a run: warnings, and which other resources became incomplete.

alter table run_status add column notes text;   -- one a line; null when there are none
