-- The log: one row that says where it ends, and the events, partitioned by position.
-- Positions are gapless and in commit order because only `append` numbers them, holding the head.

CREATE TABLE headrace.log_head (
    id smallint PRIMARY KEY DEFAULT 1 CHECK (id = 1),
    position bigint NOT NULL DEFAULT 0,
    hash bytea NOT NULL DEFAULT decode(repeat('00', 32), 'hex'),
    recorded_at_us bigint NOT NULL DEFAULT 0,
    partition_events bigint NOT NULL DEFAULT 5000000 CHECK (partition_events > 0),
    partitioned_to bigint NOT NULL DEFAULT 0  -- the last position that has a partition
) WITH (fillfactor = 10, autovacuum_vacuum_threshold = 1000);

CREATE TABLE headrace.event (
    position bigint PRIMARY KEY,
    recorded_at_us bigint NOT NULL,
    stream text NOT NULL,
    type text NOT NULL,
    project text NOT NULL,
    header bytea NOT NULL,
    data bytea NOT NULL CHECK (octet_length(data) <= 262144),
    hash bytea NOT NULL
) PARTITION BY RANGE (position);

CREATE INDEX event_by_stream ON headrace.event (stream, position);

-- What is in the log stays as it is, for its owner too.
CREATE FUNCTION headrace.refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the log is append-only' USING ERRCODE = 'ZH006';
END $$;

CREATE TRIGGER event_is_final BEFORE UPDATE OR DELETE ON headrace.event
    FOR EACH ROW EXECUTE FUNCTION headrace.refuse_change();
CREATE TRIGGER event_is_kept BEFORE TRUNCATE ON headrace.event
    FOR EACH STATEMENT EXECUTE FUNCTION headrace.refuse_change();

-- Adds the partition after the last one. The caller holds the head's row lock, or nobody appends.
-- Attaching lets readers and writers of other partitions go on, where PARTITION OF would not.
CREATE FUNCTION headrace.add_partition() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, headrace, pg_temp AS $$
DECLARE
    v_head headrace.log_head;
    v_name text;
BEGIN
    SELECT * INTO STRICT v_head FROM log_head FOR UPDATE;
    v_name := 'event_from_' || (v_head.partitioned_to + 1);
    EXECUTE format('CREATE TABLE headrace.%I (LIKE headrace.event INCLUDING ALL)', v_name);
    EXECUTE format(
        'ALTER TABLE headrace.event ATTACH PARTITION headrace.%I FOR VALUES FROM (%s) TO (%s)',
        v_name, v_head.partitioned_to + 1, v_head.partitioned_to + v_head.partition_events + 1
    );
    -- Statement triggers are not inherited.
    EXECUTE format(
        'CREATE TRIGGER event_is_kept BEFORE TRUNCATE ON headrace.%I '
        'FOR EACH STATEMENT EXECUTE FUNCTION headrace.refuse_change()', v_name
    );
    UPDATE log_head SET partitioned_to = partitioned_to + partition_events;
END $$;

INSERT INTO headrace.log_head DEFAULT VALUES;

-- The database's clock, in microseconds since 1970.
CREATE FUNCTION headrace.now_us() RETURNS bigint
LANGUAGE sql VOLATILE PARALLEL SAFE
RETURN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
