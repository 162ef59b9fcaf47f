-- The one way into the log. Locks are taken in this order: the service's row, requests, guards,
-- and the head last, because it is held until the commit has reached the disk.
--
-- Errors: ZH001 fenced, ZH002 behind, ZH003 forked, ZH004 guard refused (detail: the key),
-- ZH005 not allowed, ZH006 append-only.

-- Refuses types that the session's login may not append.
CREATE FUNCTION headrace.check_types(p_types text[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, headrace, pg_temp AS $$
DECLARE
    v_type text;
BEGIN
    SELECT t.type INTO v_type FROM (SELECT DISTINCT unnest(p_types) AS type) t
    WHERE NOT EXISTS (
        SELECT FROM event_role r
        WHERE r.type = t.type AND pg_has_role(session_user, r.role, 'MEMBER')
    ) LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'role % may not append %', session_user, v_type USING ERRCODE = 'ZH005';
    END IF;
END $$;

-- Locks the service's row and refuses unless its term, its own last append and the log at the
-- basis are as the caller believes.
CREATE FUNCTION headrace.check_basis(
    p_service text, p_epoch bigint, p_basis bigint, p_basis_hash bytea
) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, headrace, pg_temp AS $$
DECLARE
    v_epoch bigint;
    v_last bigint;
    v_hash bytea := decode(repeat('00', 32), 'hex');
BEGIN
    SELECT epoch, last_position INTO v_epoch, v_last
    FROM service_head WHERE service = p_service FOR NO KEY UPDATE;
    IF v_epoch IS DISTINCT FROM p_epoch THEN
        RAISE EXCEPTION 'epoch % of % is over', p_epoch, p_service USING ERRCODE = 'ZH001';
    ELSIF v_last > p_basis THEN
        RAISE EXCEPTION '% appended at % which is after %', p_service, v_last, p_basis
            USING ERRCODE = 'ZH002';
    END IF;
    IF p_basis <> 0 THEN
        SELECT hash INTO v_hash FROM event WHERE position = p_basis;
    END IF;
    IF v_hash IS DISTINCT FROM p_basis_hash THEN
        RAISE EXCEPTION 'the log at % is not the one that was read', p_basis
            USING ERRCODE = 'ZH003';
    END IF;
END $$;

-- The hash of what each event says, wherever it stands: lengths first, so that no two events have the
-- same bytes. Needs no lock, and is therefore made before the head is taken. NULL where an array
-- lacks an element or has a NULL, which then fails as the head's hash.
CREATE FUNCTION headrace.content_hashes(
    p_streams text[], p_types text[], p_projects text[], p_headers bytea[], p_datas bytea[]
) RETURNS bytea[]
LANGUAGE sql STABLE SET search_path = pg_catalog, headrace, pg_temp AS $$
    SELECT coalesce(array_agg(
        sha256(
            int4send(octet_length(type)) || int4send(octet_length(stream))
            || int4send(octet_length(project)) || int4send(octet_length(header))
            || type || stream || project || header || data
        )
        ORDER BY i
    ), '{}')
    FROM (
        SELECT convert_to(stream, 'UTF8') AS stream, convert_to(type, 'UTF8') AS type,
            convert_to(project, 'UTF8') AS project, header, data, i
        FROM unnest(p_streams, p_types, p_projects, p_headers, p_datas)
            WITH ORDINALITY AS e (stream, type, project, header, data, i)
        OFFSET 0  -- converted once
    ) e
$$;

-- Takes the head, gives every event that is not repeated (NULL in `p_positions`) its position and
-- hash, fills in repeats within this append, and moves the head. No hash means left out.
CREATE FUNCTION headrace.chain(
    p_contents bytea[], INOUT p_positions bigint[],
    OUT p_hashes bytea[], OUT p_recorded_at_us bigint, OUT p_last bigint
)
LANGUAGE plpgsql SET search_path = pg_catalog, headrace, pg_temp AS $$
DECLARE
    v_head headrace.log_head;
    v_hash bytea;
    v_at bytea;
BEGIN
    SELECT * INTO STRICT v_head FROM log_head FOR UPDATE;
    p_recorded_at_us := greatest(now_us(), v_head.recorded_at_us);
    p_last := v_head.position;
    v_hash := v_head.hash;
    v_at := int8send(p_recorded_at_us);
    p_hashes := array_fill(NULL::bytea, ARRAY[cardinality(p_contents)]);
    FOR i IN 1 .. cardinality(p_contents) LOOP
        IF p_positions[i] IS NULL THEN
            p_last := p_last + 1;
            p_positions[i] := p_last;
            v_hash := sha256(v_hash || int8send(p_last) || v_at || p_contents[i]);
            p_hashes[i] := v_hash;
        ELSIF p_positions[i] < 0 THEN
            p_positions[i] := p_positions[-p_positions[i]];
        END IF;
    END LOOP;
    IF p_last > v_head.position THEN  -- repeats alone leave the head as the last event has it
        UPDATE log_head SET position = p_last, hash = v_hash, recorded_at_us = p_recorded_at_us;
    END IF;
    WHILE p_last > v_head.partitioned_to - v_head.partition_events / 2 LOOP  -- one ahead
        PERFORM add_partition();
        v_head.partitioned_to := v_head.partitioned_to + v_head.partition_events;
    END LOOP;
END $$;

-- Appends all events or none. One row comes back: for each event its position and hash, or for a
-- repeated request the original's position, no hash, and whether it is the same request.
CREATE FUNCTION headrace.append(
    p_service text, p_epoch bigint, p_basis bigint, p_basis_hash bytea,
    p_streams text[], p_types text[], p_projects text[], p_headers bytea[], p_datas bytea[],
    -- These three are empty when no event is a request.
    p_request_sources text[], p_request_keys text[], p_request_hashes bytea[],
    p_guard_indexes int[], p_guard_keys text[], p_guard_deltas bigint[], p_guard_limits bigint[],
    OUT positions bigint[], OUT hashes bytea[], OUT same boolean[],
    OUT recorded_at_us bigint, OUT now_us bigint
)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, headrace, pg_temp AS $$
DECLARE
    v_last bigint;
    v_contents bytea[] := content_hashes(p_streams, p_types, p_projects, p_headers, p_datas);
    v_requests_since_us bigint := now_us() - 30 * 86400000000;  -- 30 days
BEGIN
    PERFORM check_acts_as(p_service);
    PERFORM check_types(p_types);
    PERFORM check_basis(p_service, p_epoch, p_basis, p_basis_hash);
    positions := array_fill(NULL::bigint, ARRAY[cardinality(p_datas)]);
    IF cardinality(p_request_keys) > 0 THEN
        SELECT r.p_positions, r.p_same INTO positions, same
        FROM repeated_requests(
            p_projects, p_request_sources, p_request_keys, p_request_hashes, v_requests_since_us
        ) r;
    END IF;
    IF cardinality(p_guard_keys) > 0 THEN
        PERFORM book(array_agg(key), array_agg(delta), array_agg("limit"))
        FROM unnest(p_guard_indexes, p_guard_keys, p_guard_deltas, p_guard_limits)
            AS g (i, key, delta, "limit")
        WHERE positions[i] IS NULL HAVING count(*) > 0;
    END IF;
    SELECT c.p_positions, c.p_hashes, c.p_recorded_at_us, c.p_last
    INTO positions, hashes, recorded_at_us, v_last
    FROM chain(v_contents, positions) c;
    INSERT INTO event (position, recorded_at_us, stream, type, project, header, data, hash)
    SELECT e.position, append.recorded_at_us, e.stream, e.type, e.project, e.header, e.data, e.hash
    FROM unnest(positions, p_streams, p_types, p_projects, p_headers, p_datas, hashes)
        AS e (position, stream, type, project, header, data, hash)
    WHERE e.hash IS NOT NULL;
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
    IF cardinality(array_remove(hashes, NULL)) > 0 THEN
        UPDATE service_head SET last_position = v_last WHERE service = p_service;
    END IF;
    now_us := headrace.now_us();
END $$;
