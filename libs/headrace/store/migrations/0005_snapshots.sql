-- Folded states, to start from: never the truth, and ignored once the log at their position differs.

CREATE TABLE headrace.snapshot (
    service text,
    position bigint,
    hash bytea NOT NULL,
    decision_version text NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (service, position)
);

-- Whether the log's hash at a position is this one.
CREATE FUNCTION headrace.log_has(p_position bigint, p_hash bytea) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, headrace, pg_temp AS $$
    SELECT CASE WHEN p_position = 0 THEN p_hash = decode(repeat('00', 32), 'hex')
        ELSE EXISTS (SELECT FROM event WHERE position = p_position AND hash = p_hash) END
$$;

-- Keeps a snapshot, and of the others of its service only the latest that is still of this log.
CREATE FUNCTION headrace.save_snapshot(
    p_service text, p_position bigint, p_hash bytea, p_decision_version text, p_data bytea
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, headrace, pg_temp AS $$
BEGIN
    PERFORM check_acts_as(p_service);
    INSERT INTO snapshot (service, position, hash, decision_version, data)
    VALUES (p_service, p_position, p_hash, p_decision_version, p_data)
    ON CONFLICT (service, position) DO UPDATE SET
        hash = excluded.hash, decision_version = excluded.decision_version, data = excluded.data;
    DELETE FROM snapshot s WHERE s.service = p_service AND s.position <> p_position
        AND s.position IS DISTINCT FROM (
            SELECT max(k.position) FROM snapshot k
            WHERE k.service = p_service AND k.position <> p_position
                AND log_has(k.position, k.hash)
        );
END $$;
