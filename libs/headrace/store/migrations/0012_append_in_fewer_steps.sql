-- An append of one event spent more time on calling functions and starting statements than on what
-- they did. It checks and writes the same in the same order of locks, in fewer of them. `chain`,
-- `content_hashes` and `acts_as` stay for other callers.

-- Whether the session's login may act as the service: it has the role of that name.
CREATE OR REPLACE FUNCTION headrace.acts_as(p_service text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, headrace, pg_temp AS $$
    SELECT coalesce(
        pg_has_role(session_user, to_regrole(quote_ident(role_prefix || p_service)), 'MEMBER'), false
    )
    FROM log_head
$$;

-- Books the changes, summed per key and in the order of keys. Decrements always pass, down to 0.
-- The first key that would exceed its limit is named in the error's detail. (Catching the violation of
-- the table's own check needed a transaction within the transaction.)
CREATE OR REPLACE FUNCTION headrace.book(p_keys text[], p_deltas bigint[], p_limits bigint[])
RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, headrace, pg_temp AS $$
DECLARE
    v_key text;
BEGIN
    WITH asked AS (
        SELECT u.key, sum(u.delta)::bigint AS delta, min(u."limit") AS "limit"
        FROM unnest(p_keys, p_deltas, p_limits) AS u (key, delta, "limit") GROUP BY u.key
    ), booked AS (
        INSERT INTO guard AS g (key, used, "limit", delta)
        SELECT a.key, greatest(0, a.delta), a."limit", a.delta FROM asked a
        WHERE greatest(0, a.delta) <= a."limit" ORDER BY a.key COLLATE "C"
        ON CONFLICT (key) DO UPDATE SET
            used = greatest(0, g.used + excluded.delta),
            "limit" = CASE WHEN excluded.delta > 0 THEN excluded."limit" ELSE g."limit" END,
            delta = excluded.delta
        WHERE excluded.delta <= 0 OR g.used + excluded.delta <= excluded."limit"
        RETURNING key
    )
    SELECT key INTO v_key FROM asked WHERE key NOT IN (SELECT key FROM booked)
    ORDER BY key COLLATE "C" LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION '% would be booked above its limit', v_key
            USING ERRCODE = 'ZH004', DETAIL = v_key;
    END IF;
END $$;

-- For each request of an append: NULL when it is new, else the position of the original, or minus
-- the index of the original within this same append. `p_same` says whether the hashes agree.
-- Appends with requests take turns from here to their commit. Requests older than `p_since_us`
-- are forgotten, a few at a time.
CREATE OR REPLACE FUNCTION headrace.repeated_requests(
    p_projects text[], p_sources text[], p_keys text[], p_hashes bytea[], p_since_us bigint,
    OUT p_positions bigint[], OUT p_same boolean[]
)
LANGUAGE plpgsql SET search_path = pg_catalog, headrace, pg_temp AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(1751474532, 2);
    PERFORM FROM request WHERE recorded_at_us < p_since_us LIMIT 1;
    IF FOUND THEN
        DELETE FROM request WHERE (project, source, key) IN (
            SELECT project, source, key FROM request WHERE recorded_at_us < p_since_us
            ORDER BY recorded_at_us LIMIT 2 * cardinality(p_keys)
        );
    END IF;
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

-- Appends all events or none. One row comes back: for each event its position and hash, or for a
-- repeated request the original's position, no hash, and whether it is the same request.
CREATE OR REPLACE FUNCTION headrace.append(
    p_service text, p_epoch bigint, p_basis bigint, p_basis_hash bytea,
    p_streams text[], p_types text[], p_projects text[], p_headers bytea[], p_datas bytea[],
    -- These three are empty when no event is a request.
    p_request_sources text[], p_request_keys text[], p_request_hashes bytea[],
    p_guard_indexes int[], p_guard_keys text[], p_guard_deltas bigint[], p_guard_limits bigint[],
    p_boot text, p_boottime_us bigint,  -- which boot the caller's machine is in, and for how long
    OUT positions bigint[], OUT hashes bytea[], OUT same boolean[],
    OUT recorded_at_us bigint, OUT now_us bigint
)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, headrace, pg_temp AS $$
DECLARE
    v_count int := cardinality(p_datas);
    v_head headrace.log_head;
    v_epoch bigint;
    v_own bigint;  -- the service's last append
    v_hash bytea;
    v_at bytea;
    v_last bigint;
    v_read_us bigint;
    v_elapsed_us bigint;
    v_now_us bigint;
    v_allowed text[] := '{}';
    v_type text;
    v_stream bytea;
    v_type_bytes bytea;
    v_project bytea;
    v_contents bytea[] := array_fill(NULL::bytea, ARRAY[v_count]);
BEGIN
    SELECT * INTO STRICT v_head FROM log_head;
    v_now_us := wall_us() + v_head.clock_offset_us;

    -- By how much the clock went on more (or less) than a machine that has read it before.
    SELECT p_boottime_us - s.boottime_us, s.read_us INTO v_elapsed_us, v_read_us
    FROM service_head s
    WHERE p_boot <> '' AND s.boot = p_boot AND s.boottime_us <= p_boottime_us
        AND s.read_us >= v_head.clock_read_from_us
    ORDER BY s.boottime_us DESC LIMIT 1;
    IF abs(v_now_us - v_read_us - v_elapsed_us) > greatest(60000000, v_elapsed_us / 1000) THEN
        RAISE EXCEPTION 'the clock of the database stepped by % us', v_now_us - v_read_us - v_elapsed_us
            USING ERRCODE = 'ZH007';
    END IF;

    IF pg_has_role(
        session_user, to_regrole(quote_ident(v_head.role_prefix || p_service)), 'MEMBER'
    ) IS NOT TRUE THEN
        RAISE EXCEPTION 'role % may not act as service %', session_user, p_service
            USING ERRCODE = 'ZH005';
    END IF;

    -- Needs no lock, and is therefore made before any is taken.
    FOR i IN 1 .. v_count LOOP
        v_type := p_types[i];
        IF NOT v_type = ANY (v_allowed) THEN
            PERFORM FROM event_role r
            WHERE r.type = v_type AND pg_has_role(session_user, r.role, 'MEMBER');
            IF NOT FOUND THEN
                RAISE EXCEPTION 'role % may not append %', session_user, v_type
                    USING ERRCODE = 'ZH005';
            END IF;
            v_allowed := v_allowed || v_type;
        END IF;
        v_stream := convert_to(p_streams[i], 'UTF8');
        v_type_bytes := convert_to(v_type, 'UTF8');
        v_project := convert_to(p_projects[i], 'UTF8');
        v_contents[i] := sha256(
            int4send(octet_length(v_type_bytes)) || int4send(octet_length(v_stream))
            || int4send(octet_length(v_project)) || int4send(octet_length(p_headers[i]))
            || v_type_bytes || v_stream || v_project || p_headers[i] || p_datas[i]
        );
    END LOOP;

    SELECT s.epoch, s.last_position, (SELECT e.hash FROM event e WHERE e.position = p_basis)
    INTO v_epoch, v_own, v_hash
    FROM service_head s WHERE s.service = p_service FOR NO KEY UPDATE;
    IF v_epoch IS DISTINCT FROM p_epoch THEN
        RAISE EXCEPTION 'epoch % of % is over', p_epoch, p_service USING ERRCODE = 'ZH001';
    ELSIF v_own > p_basis THEN
        RAISE EXCEPTION '% appended at % which is after %', p_service, v_own, p_basis
            USING ERRCODE = 'ZH002';
    END IF;
    IF p_basis = 0 THEN
        v_hash := decode(repeat('00', 32), 'hex');
    END IF;
    IF v_hash IS DISTINCT FROM p_basis_hash THEN
        RAISE EXCEPTION 'the log at % is not the one that was read', p_basis
            USING ERRCODE = 'ZH003';
    END IF;

    positions := array_fill(NULL::bigint, ARRAY[v_count]);
    IF cardinality(p_request_keys) > 0 THEN
        SELECT r.p_positions, r.p_same INTO positions, same
        FROM repeated_requests(
            p_projects, p_request_sources, p_request_keys, p_request_hashes,
            v_now_us - 30 * 86400000000  -- 30 days
        ) r;
    END IF;
    IF cardinality(p_guard_keys) > 0 THEN
        PERFORM book(array_agg(key), array_agg(delta), array_agg("limit"))
        FROM unnest(p_guard_indexes, p_guard_keys, p_guard_deltas, p_guard_limits)
            AS g (i, key, delta, "limit")
        WHERE positions[i] IS NULL HAVING count(*) > 0;
    END IF;

    -- Every event that is not repeated (NULL in `positions`) gets its place; repeats within this
    -- append (minus the index of the original) get the original's. No hash means left out.
    SELECT * INTO STRICT v_head FROM log_head FOR UPDATE;
    recorded_at_us := greatest(wall_us() + v_head.clock_offset_us, v_head.recorded_at_us);
    v_last := v_head.position;
    v_hash := v_head.hash;
    v_at := int8send(recorded_at_us);
    hashes := array_fill(NULL::bytea, ARRAY[v_count]);
    FOR i IN 1 .. v_count LOOP
        IF positions[i] IS NULL THEN
            v_last := v_last + 1;
            positions[i] := v_last;
            v_hash := sha256(v_hash || int8send(v_last) || v_at || v_contents[i]);
            hashes[i] := v_hash;
        ELSIF positions[i] < 0 THEN
            positions[i] := positions[-positions[i]];
        END IF;
    END LOOP;
    IF v_last > v_head.position THEN  -- repeats alone leave the log as it is
        UPDATE log_head SET position = v_last, hash = v_hash, recorded_at_us = append.recorded_at_us;
        WHILE v_last > v_head.partitioned_to - v_head.partition_events / 2 LOOP  -- one ahead
            PERFORM add_partition();
            v_head.partitioned_to := v_head.partitioned_to + v_head.partition_events;
        END LOOP;
        INSERT INTO event (position, recorded_at_us, stream, type, project, header, data, hash)
        SELECT e.position, append.recorded_at_us, e.stream, e.type, e.project, e.header, e.data, e.hash
        FROM unnest(positions, p_streams, p_types, p_projects, p_headers, p_datas, hashes)
            AS e (position, stream, type, project, header, data, hash)
        WHERE e.hash IS NOT NULL;
        UPDATE service_head
        SET last_position = v_last, boot = p_boot, boottime_us = p_boottime_us, read_us = v_now_us
        WHERE service = p_service;
    END IF;
    IF cardinality(p_request_keys) > 0 THEN
        INSERT INTO request (project, source, key, hash, position, recorded_at_us)
        SELECT r.project, r.source, r.key, r.hash, r.position, append.recorded_at_us
        FROM unnest(
            p_projects, p_request_sources, p_request_keys, p_request_hashes, positions, hashes
        ) AS r (project, source, key, hash, position, event_hash)
        WHERE r.event_hash IS NOT NULL AND r.key <> ''
        ON CONFLICT (project, source, key) DO UPDATE SET  -- one that was old enough to be forgotten
            hash = excluded.hash, position = excluded.position,
            recorded_at_us = excluded.recorded_at_us;
    END IF;
    now_us := wall_us() + v_head.clock_offset_us;
END $$;
