-- What an append is checked against besides its basis: bookings of devices, and requests that were
-- made before.

CREATE TABLE headrace.guard (
    key text PRIMARY KEY,
    used bigint NOT NULL CHECK (used >= 0),
    "limit" bigint NOT NULL,
    delta bigint NOT NULL,  -- the last change
    CONSTRAINT guard_within_limit CHECK (used <= "limit")
) WITH (fillfactor = 50);

CREATE TABLE headrace.request (
    project text,
    source text,
    key text,
    hash bytea NOT NULL,
    position bigint NOT NULL,
    recorded_at_us bigint NOT NULL,
    PRIMARY KEY (project, source, key)
);

CREATE INDEX request_by_age ON headrace.request (recorded_at_us);

-- Books the changes, summed per key and in the order of keys. Decrements always pass, down to 0.
-- The first key that would exceed its limit is named in the error's detail.
CREATE FUNCTION headrace.book(p_keys text[], p_deltas bigint[], p_limits bigint[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, headrace, pg_temp AS $$
DECLARE
    v_key text;
BEGIN
    INSERT INTO guard AS g (key, used, "limit", delta)
    SELECT u.key, greatest(0, sum(u.delta)), min(u."limit"), sum(u.delta)
    FROM unnest(p_keys, p_deltas, p_limits) AS u (key, delta, "limit")
    GROUP BY u.key ORDER BY u.key COLLATE "C"
    ON CONFLICT (key) DO UPDATE SET
        used = greatest(0, g.used + excluded.delta),
        "limit" = CASE WHEN excluded.delta > 0 THEN excluded."limit" ELSE g."limit" END,
        delta = excluded.delta;
EXCEPTION WHEN check_violation THEN
    SELECT u.key INTO v_key
    FROM unnest(p_keys, p_deltas, p_limits) AS u (key, delta, "limit") LEFT JOIN guard g USING (key)
    GROUP BY u.key
    HAVING sum(u.delta) > 0 AND coalesce(max(g.used), 0) + sum(u.delta) > min(u."limit")
    ORDER BY u.key COLLATE "C" LIMIT 1;
    RAISE EXCEPTION '% would be booked above its limit', v_key
        USING ERRCODE = 'ZH004', DETAIL = v_key;
END $$;

-- For each request of an append: NULL when it is new, else the position of the original, or minus
-- the index of the original within this same append. `p_same` says whether the hashes agree.
-- Appends with requests take turns from here to their commit. Requests older than `p_since_us`
-- are forgotten, a few at a time.
CREATE FUNCTION headrace.repeated_requests(
    p_projects text[], p_sources text[], p_keys text[], p_hashes bytea[], p_since_us bigint,
    OUT p_positions bigint[], OUT p_same boolean[]
)
LANGUAGE plpgsql SET search_path = pg_catalog, headrace, pg_temp AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(1751474532, 2);
    DELETE FROM request WHERE (project, source, key) IN (
        SELECT project, source, key FROM request WHERE recorded_at_us < p_since_us
        ORDER BY recorded_at_us LIMIT 2 * cardinality(p_keys)
    );
    WITH asked AS (
        SELECT i, project, source, key, hash,
            first_value(i) OVER same_request AS first_i,
            first_value(hash) OVER same_request AS first_hash
        FROM unnest(p_projects, p_sources, p_keys, p_hashes)
            WITH ORDINALITY AS u (project, source, key, hash, i)
        WINDOW same_request AS (PARTITION BY project, source, key ORDER BY i)
    )
    SELECT
        array_agg(
            CASE WHEN a.key <> '' THEN coalesce(r.position, nullif(-a.first_i, -a.i)) END
            ORDER BY a.i
        ),
        array_agg(a.hash = coalesce(r.hash, a.first_hash) ORDER BY a.i)
    INTO p_positions, p_same
    FROM asked a LEFT JOIN request r
        ON r.project = a.project AND r.source = a.source AND r.key = a.key AND a.key <> ''
            AND r.recorded_at_us >= p_since_us;
END $$;
