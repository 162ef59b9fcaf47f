"""Devices that fail, and workers that take more of one than they may, seen by their users."""


def test_a_faulty_device_is_told_its_job_starts_elsewhere_and_an_operator_takes_it_back(platform):
    job = platform.headrace("run", "-d", "--gpus", "1", "--", "sleep", "600").stdout.split()[0]

    def attempts():
        return [a for a in platform.described(job)["attempts"] if a.get("started_at_us")]

    platform.wait(attempts)
    (worker,) = attempts()[0]["workers"]
    node, device = worker["node"], worker["devices"][0]
    with (platform.layout.node(node) / "simulated/xids").open("a") as file:
        file.write(f"{device} 79\n")

    platform.wait(lambda: len(attempts()) == 2, "it starts again")
    first, second = attempts()
    assert (first["evicted"], first["eviction_names"]["device"]) == ("device-faulty", device)
    assert second["workers"][0]["devices"] != [device]
    fault = "XID 79: the GPU has fallen off the bus"
    assert fault in platform.headrace("describe", job).stdout
    assert fault in platform.headrace("node", "describe", node).stdout
    platform.headrace("node", "uncordon", node)
    platform.wait(lambda: fault not in platform.headrace("node", "describe", node).stdout)
    platform.headrace("cancel", job)
    assert platform.ended(job)["state"] == "cancelled"


def test_who_takes_more_than_its_share_fails_and_reads_why(platform):
    name = '"$HEADRACE_SIMULATED_GPUS/$CUDA_VISIBLE_DEVICES.$(readlink /proc/self/ns/pid).$$"'
    hold = f"printf 70000000000 > {name}; sleep 600"
    done = platform.headrace("run", "--gpus", "0.5", "--", "sh", "-c", hold, check=False)
    assert "enforcement: watch" in done.stdout
    assert "out of memory: it held 65.2 GiB" in done.stdout
    assert "its share of 0.5 is 40.0 GiB, enforced by the agent's watch" in done.stdout
