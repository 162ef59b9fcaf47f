-- A lease that ends later than one of its length could end was given before the server's clock was
-- set back. It then lasts its length from when somebody else asks for the lead: a leader that lives
-- renews it before that, and one that is dead is not waited for until the clock has caught up.

ALTER TABLE headrace.service_head ADD COLUMN lease_s double precision;  -- unknown of earlier ones

CREATE OR REPLACE FUNCTION headrace.lead(p_service text, p_holder text, p_lease_s double precision)
RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, headrace, pg_temp AS $$
DECLARE
    v_epoch bigint;
BEGIN
    PERFORM check_acts_as(p_service);
    UPDATE service_head SET lease_until = clock_timestamp() + make_interval(secs => lease_s)
    WHERE service = p_service AND holder <> p_holder
        AND lease_until > clock_timestamp() + make_interval(secs => lease_s);
    INSERT INTO service_head AS s (service, epoch, holder, lease_until, lease_s)
    VALUES (
        p_service, 1, p_holder, clock_timestamp() + make_interval(secs => p_lease_s), p_lease_s
    )
    ON CONFLICT (service) DO UPDATE
        SET epoch = s.epoch + 1, holder = excluded.holder,
            lease_until = excluded.lease_until, lease_s = excluded.lease_s
        WHERE s.holder = excluded.holder OR s.lease_until <= clock_timestamp()
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
    SET lease_until = clock_timestamp() + make_interval(secs => p_lease_s), lease_s = p_lease_s
    WHERE service = p_service AND holder = p_holder AND epoch = p_epoch;
    RETURN FOUND;
END $$;
