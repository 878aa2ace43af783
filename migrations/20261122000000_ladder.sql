-- The ladder of thresholds, and reductions that cut and leave out messages without a model.

-- How a view shows the part, encoded; null: by the placeholder of the policy in force, as every mark did before.
alter table pruned add column cut blob;

-- Which rung asked for the reduction, or is to be taken by hand: 1 micro, 2 auto, 3 deep; null for the routine.
alter table job add column level integer;

-- What people are told of it, in words; empty for nothing.
alter table job add column notice text not null default '';

-- 1 while it waits for somebody to agree, until its time comes all the same.
alter table job add column proposed integer not null default 0;

-- The rungs that are reached had nothing to do below this many tokens; null: nobody looked.
alter table session add column quiet_tokens integer;

-- Microseconds since 1970: until then no rung asks again, as long as the view fits the window.
alter table session add column cool_until integer;

-- Tool results in the view that no mark shortens.
alter table session add column output_count integer not null default 0;
