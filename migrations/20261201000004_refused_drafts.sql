-- Drafts with text that a rule for secrets refused.

-- The rule that refused text of a draft; none if there was none. Such a draft has no text, takes none, and becomes no part: its
-- row says why, until its message is sealed.
alter table draft add column refused text;
