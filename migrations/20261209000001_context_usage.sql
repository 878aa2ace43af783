-- Context usage follows from a session's rows and is worked out by its fold. The row keeps what the newest decision found,
-- for lists of sessions that are not in memory.
alter table session drop column view_tokens;
alter table session drop column appended_tokens;
alter table session drop column usage_tokens;
alter table session drop column usage_at;
-- Tokens of a request with the view at `context_revision`; null before the first decision.
alter table session add column context_tokens integer;
alter table session add column context_revision integer;

-- The running total of estimates told what had come since a reply's view. The fold estimates that message by message.
alter table event drop column appended_tokens;
