-- Rules for secrets.

-- What a draft has beside its text while there are rules: the end of what was received that may be the begin of a secret,
-- and what placeholders stand for. It is encrypted with a key that is not in the store; none if no rule was there.
alter table draft add column hidden blob;
