-- Roles belong to a whole server, and another of its databases may have another platform's log: so
-- the names of a log's roles begin with what the log says.

ALTER TABLE headrace.log_head ADD COLUMN role_prefix text NOT NULL DEFAULT 'headrace_';

CREATE OR REPLACE FUNCTION headrace.acts_as(p_service text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, headrace, pg_temp AS $$
    SELECT coalesce(bool_or(pg_has_role(session_user, r.oid, 'MEMBER')), false)
    FROM pg_roles r, log_head h WHERE r.rolname = h.role_prefix || p_service
$$;
