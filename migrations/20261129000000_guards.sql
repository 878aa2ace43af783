-- What keeps reductions from going on without end, beside the breaker.

-- What no reduction takes away (a system prompt, descriptions of tools, pinned messages), once it was found to fill the
-- window. Rungs that are due below it ask for nothing. Null: not found, or something has changed since.
alter table session add column overhead_tokens integer;

-- How large the context was before the newest reduction, by trusted usage and by the estimate of its view. Usage of a
-- smaller view tells, compared with these, what did not shrink. Null: no usage was trusted then.
alter table session add column reduced_usage_tokens integer;
alter table session add column reduced_view_tokens integer;

-- What the view weighed right after the newest reduction that a rung asked for: rungs may rest until it has grown by a
-- share of the window. Null: there was none since the view was changed in another way.
alter table session add column rest_tokens integer;
