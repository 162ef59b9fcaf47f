"""The faults a node must come through, and the test that shows it for each.

Rule: one row per fault, one test per row. `F` are clocks, `G` the agent and what it supervises, `H`
devices, `N` the network, `B` bad input. Where a row speaks of a lease it means attempts with
`replace_after`; those that are kept run on.
"""

from __future__ import annotations

from typing import NamedTuple

_NODE = "tests/node_agent"
_HERE = "tests/agent_faults"


class Fault(NamedTuple):
    """`name` as people speak of it, `what` happens, and the `test` as pytest names it."""

    name: str
    what: str
    test: str


def _of(name: str, what: str, file: str, test: str) -> Fault:
    return Fault(name, what, f"{file}.py::{test}")


FAULTS = (
    _of("F1", "the wall clock jumps by an hour and by a year, forwards and back",
        f"{_HERE}/test_hosts", "test_a_wall_clock_that_jumps_ends_no_lease"),
    _of("F2", "a wall clock says that a lease is long over: silence is measured, not read",
        "tests/placement/test_leases",
        "test_nothing_is_replaced_before_lease_grace_and_margin_are_over"),
    _of("F3", "half a lease is on disk",
        f"{_NODE}/test_lease", "test_half_a_line_is_no_lease"),
    _of("F4", "an agent is stopped for longer than its lease, and goes on",
        f"{_HERE}/test_partitions",
        "test_a_machine_that_sleeps_past_its_lease_ends_what_it_ran_on_waking"),
    _of("F5", "a machine sleeps past its lease: what it ran ends before the lease is renewed",
        f"{_NODE}/test_lease",
        "test_an_agent_that_slept_past_the_lease_ends_the_attempt_before_it_renews"),
    _of("F6", "what was granted before the sleep is not started after it",
        f"{_NODE}/test_lease", "test_what_was_replaced_while_the_agent_slept_is_not_started"),
    _of("G1", "the agent is killed while jobs run",
        f"{_NODE}/test_faults",
        "test_a_worker_outlives_its_agent_and_the_next_one_has_its_exit_code"),
    _of("G2", "a job ends while no agent is there",
        f"{_NODE}/test_faults",
        "test_a_worker_that_ends_while_no_agent_is_there_is_reported_by_the_next"),
    _of("G3", "the shim is killed, with children in sessions of their own",
        f"{_NODE}/test_faults", "test_when_a_shim_is_killed_its_worker_dies_and_is_lost"),
    _of("G4", "agent, launcher and shim are killed together",
        f"{_NODE}/test_faults", "test_shim_launcher_and_agent_killed_together_leave_nothing"),
    _of("G5", "the launcher is killed while jobs run, and while they start",
        f"{_NODE}/test_faults", "test_workers_outlive_the_launcher_and_new_ones_start"),
    _of("G6", "the machine is started anew",
        f"{_NODE}/test_faults",
        "test_after_a_reboot_what_ran_before_is_lost_and_not_started_again"),
    _of("G7", "the node's folder is lost",
        f"{_NODE}/test_faults", "test_without_its_folder_a_node_starts_nothing_of_before"),
    _of("G8", "a start is said twice",
        f"{_NODE}/test_faults", "test_a_start_that_is_said_twice_runs_once"),
    _of("G9", "a job forks twice into sessions of its own",
        f"{_NODE}/test_workers", "test_what_escapes_into_a_session_of_its_own_is_ended_too"),
    _of("G10", "a job leaves processes behind when it ends",
        f"{_NODE}/test_workers", "test_what_the_command_leaves_behind_ends_with_it"),
    _of("G11", "a job ignores SIGTERM",
        f"{_NODE}/test_workers", "test_a_worker_that_ignores_the_request_is_killed"),
    _of("G12", "a job stops its own shim",
        f"{_NODE}/test_faults", "test_a_job_that_stops_its_own_shim_is_stopped_nevertheless"),
    _of("G13", "the journal is torn",
        f"{_NODE}/test_journal", "test_a_torn_last_line_is_cut_off_and_the_numbers_go_on"),
    _of("G14", "the journal is damaged",
        f"{_NODE}/test_journal", "test_a_damaged_file_begins_anew_and_says_again_what_is_owed"),
    _of("G15", "another version of the agent takes over",
        f"{_NODE}/test_faults", "test_a_launcher_of_another_version_makes_room"),
    _of("G16", "an answer of placement is lost",
        f"{_NODE}/test_faults",
        "test_an_end_that_placement_never_answered_is_repeated_to_the_next"),
    _of("G17", "the shim's folder is written half",
        f"{_NODE}/test_faults", "test_an_interrupted_shim_folder_is_no_end"),
    _of("G18", "a pid is used again by somebody else",
        f"{_HERE}/test_hosts", "test_a_pid_that_is_somebody_elses_by_now_is_left_alone"),
    _of("G19", "a job cannot be killed: its device stays taken until it is gone",
        f"{_HERE}/test_hosts", "test_what_cannot_be_killed_keeps_its_device_until_it_is_gone"),
    _of("G20", "a job fills the disk",
        f"{_HERE}/test_hosts",
        "test_a_disk_that_a_job_fills_costs_no_exit_code_and_no_report"),
    _of("G21", "a second machine has the node's name",
        f"{_HERE}/test_hosts", "test_a_second_machine_with_a_nodes_name_gets_nothing_to_run"),
    _of("G22", "a second agent in the same folder",
        f"{_NODE}/test_process", "test_a_second_agent_in_the_same_folder_ends_with_one_line"),
    _of("G23", "a job hides from its mark while everything above it is killed",
        f"{_NODE}/test_isolation", "test_what_hides_from_its_mark_is_found_in_its_group"),
    _of("G24", "a job uses more memory than it asked for",
        f"{_NODE}/test_isolation",
        "test_who_uses_more_memory_than_it_asked_for_ends_with_that_reason"),
    _of("B1", "a missing executable, one that is none, an unreadable folder",
        f"{_NODE}/test_workers", "test_what_cannot_be_started_says_why"),
    _of("B2", "a line of 100 MB",
        f"{_HERE}/test_hosts",
        "test_a_line_of_a_hundred_megabytes_is_kept_within_its_limit"),
    _of("B3", "newlines and every script in the environment",
        f"{_NODE}/test_environment",
        "test_newlines_and_every_script_come_through_the_environment"),
    _of("B4", "a job that may run as nobody here",
        f"{_NODE}/test_isolation", "test_who_is_mapped_to_root_runs_nowhere"),
    _of("N1", "cut off for seconds",
        f"{_HERE}/test_partitions", "test_seconds_without_contact_change_nothing"),
    _of("N2", "cut off for longer than a lease: kept",
        f"{_HERE}/test_partitions", "test_who_is_kept_runs_on_for_longer_than_any_lease"),
    _of("N3", "cut off for longer than a lease: replaced, then healed",
        f"{_HERE}/test_partitions", "test_who_is_replaced_ends_there_before_it_starts_elsewhere"),
    _of("N4", "cut off for ever without an agent: replaced",
        f"{_HERE}/test_partitions",
        "test_a_machine_cut_off_for_ever_without_an_agent_ends_what_is_replaced"),
    _of("N5", "gone for ever: kept until it is fenced",
        f"{_HERE}/test_partitions",
        "test_a_machine_cut_off_for_ever_keeps_what_is_kept_until_it_is_fenced"),
    _of("N6", "every machine cut off together",
        f"{_HERE}/test_partitions", "test_when_all_go_silent_together_nobody_is_replaced"),
    _of("N7", "cut off with the shim stopped: the agent ends it",
        f"{_NODE}/test_lease", "test_the_agent_ends_it_when_the_shim_cannot"),
)  # fmt: skip
