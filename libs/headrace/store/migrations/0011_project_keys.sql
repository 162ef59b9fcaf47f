-- The id of a project's key is a digest of what is kept of it, so that events name that too. Whoever verifies
-- is told the digest, and not what it is of.

ALTER TABLE headrace.project_key ALTER COLUMN id DROP DEFAULT;

CREATE FUNCTION headrace.project_key_digests() RETURNS TABLE (project text, id text, digest bytea)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, headrace, pg_temp AS $$
    SELECT k.project, k.id, sha256(k.wrapped) FROM project_key k ORDER BY k.project
$$;
