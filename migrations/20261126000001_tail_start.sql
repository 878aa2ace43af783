-- A summary by hand may say where its tail starts.

-- The revision of the first place that it keeps verbatim; null: the policy chooses.
alter table job add column tail_start integer;
