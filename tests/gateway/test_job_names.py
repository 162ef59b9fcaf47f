"""Jobs are found by how their ids begin, however many there are."""

from headrace.gateway.job_names import NEW_MAX, JobNames


def test_those_that_begin_so_are_found_and_a_name_that_is_none_looks_at_few():
    names, looks = JobNames(), []
    everybody = [f"job-{number:05}" for number in range(3 * NEW_MAX)]

    def sorted_anew():
        looks.append(1)
        return [*everybody, "group-1/7"]

    for name in everybody:
        names.add(name)
    assert list(names.beginning_with("job-0001", sorted_anew)) == everybody[10:20]
    names.add("job-00010-later")
    names.add("group-1/8")
    assert list(names.beginning_with("job-00010", sorted_anew)) == ["job-00010", "job-00010-later"]
    for missing in ("nothing-0000", "job-x", "group-1/", "zzz", "a"):
        assert list(names.beginning_with(missing, sorted_anew)) == []
    assert len(looks) == 1, "sorted once, for many that had come"
