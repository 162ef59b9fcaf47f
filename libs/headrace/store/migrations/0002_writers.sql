-- Who may write: the term of each service, and which role may append which type of event.

CREATE TABLE headrace.service_head (
    service text PRIMARY KEY,
    epoch bigint NOT NULL,  -- fences every earlier leader
    holder text NOT NULL,
    lease_until timestamptz NOT NULL,
    last_position bigint NOT NULL DEFAULT 0  -- of the service's own last append
) WITH (fillfactor = 10, autovacuum_vacuum_threshold = 1000);

CREATE TABLE headrace.event_role (
    type text,
    role text,
    PRIMARY KEY (type, role)
);

-- Whether the session's login may act as the service: it has the role headrace_<service>. The
-- login counts, not the current role, which is the owner's inside these functions.
CREATE FUNCTION headrace.acts_as(p_service text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, headrace, pg_temp AS $$
    SELECT coalesce(bool_or(pg_has_role(session_user, oid, 'MEMBER')), false)
    FROM pg_roles WHERE rolname = 'headrace_' || p_service
$$;

CREATE FUNCTION headrace.check_acts_as(p_service text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, headrace, pg_temp AS $$
BEGIN
    IF NOT acts_as(p_service) THEN
        RAISE EXCEPTION 'role % may not act as service %', session_user, p_service
            USING ERRCODE = 'ZH005';
    END IF;
END $$;

-- A new term, unless another holder's lease is unexpired: then no row. Waits for an append in
-- flight, which holds the same row; whatever the old term sends later is refused.
CREATE FUNCTION headrace.lead(p_service text, p_holder text, p_lease_s double precision)
RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, headrace, pg_temp AS $$
DECLARE
    v_epoch bigint;
BEGIN
    PERFORM check_acts_as(p_service);
    INSERT INTO service_head AS s (service, epoch, holder, lease_until)
    VALUES (p_service, 1, p_holder, clock_timestamp() + make_interval(secs => p_lease_s))
    ON CONFLICT (service) DO UPDATE
        SET epoch = s.epoch + 1, holder = excluded.holder, lease_until = excluded.lease_until
        WHERE s.holder = excluded.holder OR s.lease_until <= clock_timestamp()
    RETURNING epoch INTO v_epoch;
    RETURN v_epoch;
END $$;

-- Sets the lease to end `p_lease_s` from now; 0 ends it. False when the term is over.
CREATE FUNCTION headrace.renew(
    p_service text, p_holder text, p_epoch bigint, p_lease_s double precision
) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, headrace, pg_temp AS $$
BEGIN
    PERFORM check_acts_as(p_service);
    UPDATE service_head SET lease_until = clock_timestamp() + make_interval(secs => p_lease_s)
    WHERE service = p_service AND holder = p_holder AND epoch = p_epoch;
    RETURN FOUND;
END $$;
