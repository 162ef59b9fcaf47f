-- The log's time is the server's clock plus an offset, which makes up for what that clock was set by: ages
-- of requests, leases and all that is recorded then go on as if it had not been. The server cannot tell; who
-- appends can: each says with every append and renewal how long its machine has run (`CLOCK_BOOTTIME`, which
-- no setting moves), and which boot that is. A clock that went on by something else has stepped.
--
-- Error: ZH007 the clock has stepped: `keep_time`, then again.

ALTER TABLE headrace.log_head
    ADD COLUMN clock_offset_us bigint NOT NULL DEFAULT 0,
    ADD COLUMN clock_read_from_us bigint NOT NULL DEFAULT 0;  -- readings before that are void

-- The last reading of a service: the boot its machine was in, for how long, and the log's time then.
ALTER TABLE headrace.service_head
    ADD COLUMN boot text NOT NULL DEFAULT '',
    ADD COLUMN boottime_us bigint NOT NULL DEFAULT 0,
    ADD COLUMN read_us bigint NOT NULL DEFAULT 0;

-- The server's clock, in microseconds since 1970.
CREATE FUNCTION headrace.wall_us() RETURNS bigint
LANGUAGE sql VOLATILE PARALLEL SAFE
RETURN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;

-- The log's time.
CREATE OR REPLACE FUNCTION headrace.now_us() RETURNS bigint
LANGUAGE sql VOLATILE PARALLEL SAFE
RETURN headrace.wall_us() + (SELECT clock_offset_us FROM headrace.log_head);

-- By how much the clock went on more (or less) than a machine that has read it before; 0 for what a busy
-- server, a slow network and clocks that drift can be, and where nobody of this boot has read it.
CREATE FUNCTION headrace.clock_stepped_us(p_boot text, p_boottime_us bigint) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, headrace, pg_temp AS $$
DECLARE
    v_elapsed_us bigint;
    v_read_us bigint;
    v_by_us bigint;
BEGIN
    SELECT p_boottime_us - s.boottime_us, s.read_us INTO v_elapsed_us, v_read_us
    FROM service_head s
    WHERE p_boot <> '' AND s.boot = p_boot AND s.boottime_us <= p_boottime_us
        AND s.read_us >= (SELECT clock_read_from_us FROM log_head)
    ORDER BY s.boottime_us DESC LIMIT 1;
    v_by_us := now_us() - v_read_us - v_elapsed_us;
    IF abs(v_by_us) > greatest(60000000, v_elapsed_us / 1000) THEN
        RETURN v_by_us;
    END IF;
    RETURN 0;
END $$;

-- Makes up for a step; by how much the clock had stepped, told to one who asks alone. Time never goes
-- back behind what was recorded.
CREATE FUNCTION headrace.keep_time(p_service text, p_boot text, p_boottime_us bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, headrace, pg_temp AS $$
DECLARE
    v_by_us bigint := clock_stepped_us(p_boot, p_boottime_us);
BEGIN
    PERFORM check_acts_as(p_service);
    IF v_by_us = 0 THEN
        RETURN 0;
    END IF;
    PERFORM FROM log_head FOR UPDATE;
    v_by_us := clock_stepped_us(p_boot, p_boottime_us);
    UPDATE log_head
    SET clock_offset_us = greatest(clock_offset_us - v_by_us, recorded_at_us - wall_us())
    WHERE v_by_us <> 0;
    IF clock_stepped_us(p_boot, p_boottime_us) <> 0 THEN  -- a later time is in the log: it stays
        UPDATE log_head SET clock_read_from_us = recorded_at_us;
    END IF;
    RETURN v_by_us;
END $$;

CREATE OR REPLACE FUNCTION headrace.lead(p_service text, p_holder text, p_lease_s double precision)
RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, headrace, pg_temp AS $$
DECLARE
    v_epoch bigint;
    v_now timestamptz := to_timestamp(now_us() / 1000000.0);
BEGIN
    PERFORM check_acts_as(p_service);
    UPDATE service_head SET lease_until = v_now + make_interval(secs => lease_s)
    WHERE service = p_service AND holder <> p_holder
        AND lease_until > v_now + make_interval(secs => lease_s);
    INSERT INTO service_head AS s (service, epoch, holder, lease_until, lease_s)
    VALUES (p_service, 1, p_holder, v_now + make_interval(secs => p_lease_s), p_lease_s)
    ON CONFLICT (service) DO UPDATE
        SET epoch = s.epoch + 1, holder = excluded.holder,
            lease_until = excluded.lease_until, lease_s = excluded.lease_s
        WHERE s.holder = excluded.holder OR s.lease_until <= v_now
    RETURNING epoch INTO v_epoch;
    RETURN v_epoch;
END $$;

CREATE OR REPLACE FUNCTION headrace.renew(
    p_service text, p_holder text, p_epoch bigint, p_lease_s double precision
) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, headrace, pg_temp AS $$
BEGIN
    PERFORM check_acts_as(p_service);
    UPDATE service_head
    SET lease_until = to_timestamp(now_us() / 1000000.0) + make_interval(secs => p_lease_s),
        lease_s = p_lease_s
    WHERE service = p_service AND holder = p_holder AND epoch = p_epoch;
    RETURN FOUND;
END $$;

DROP FUNCTION headrace.append(
    text, bigint, bigint, bytea, text[], text[], text[], bytea[], bytea[],
    text[], text[], bytea[], int[], text[], bigint[], bigint[]
);

-- Appends all events or none. One row comes back: for each event its position and hash, or for a
-- repeated request the original's position, no hash, and whether it is the same request.
CREATE FUNCTION headrace.append(
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
    v_last bigint;
    v_contents bytea[] := content_hashes(p_streams, p_types, p_projects, p_headers, p_datas);
    v_now_us bigint := now_us();
    v_requests_since_us bigint := v_now_us - 30 * 86400000000;  -- 30 days
    v_stepped_us bigint := clock_stepped_us(p_boot, p_boottime_us);
BEGIN
    IF v_stepped_us <> 0 THEN
        RAISE EXCEPTION 'the clock of the database stepped by % us', v_stepped_us
            USING ERRCODE = 'ZH007';
    END IF;
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
        UPDATE service_head
        SET last_position = v_last, boot = p_boot, boottime_us = p_boottime_us, read_us = v_now_us
        WHERE service = p_service;
    END IF;
    now_us := headrace.now_us();
END $$;
