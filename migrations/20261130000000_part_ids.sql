-- Parts by the ids that views show.
--
-- A placeholder may name nothing but the part it stands for, so the original has to be found by that id alone. Without an
-- index that would walk every part of the store.
create unique index part_public on part (public_id);
