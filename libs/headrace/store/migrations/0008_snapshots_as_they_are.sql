-- Snapshots are megabytes, few are kept, and each is soon replaced: compressing one costs more than
-- writing it, while appends wait for the same cores.

ALTER TABLE headrace.snapshot ALTER COLUMN data SET STORAGE EXTERNAL;
