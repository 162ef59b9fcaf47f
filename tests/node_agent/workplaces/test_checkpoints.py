"""What a job saves without saying where follows it, from attempt to attempt and node to node."""

from tests.node_agent.workplaces.jobs import place, ran, shell

SAVE = 'cd "$HEADRACE_CHECKPOINT_DIR"; mkdir deep; echo 41 > deep/step; exit 3'
GO_ON = 'cat "$HEADRACE_CHECKPOINT_DIR/deep/step"; echo 42 > "$HEADRACE_CHECKPOINT_DIR/deep/step"'


async def test_the_next_attempt_finds_what_the_last_one_saved_and_may_change_it(world, node):
    await place(world, "train")
    _, end = await ran(node, "train", *shell(SAVE))
    assert (end.exit_code, end.outputs) == (3, "")

    said, last = await ran(node, "train", *shell(GO_ON), attempt=2, checkpoint=end.checkpoint)

    assert said == "41\n"
    assert (last.exit_code, last.checkpoint) == (0, "")  # nobody comes after it


async def test_it_is_kept_beside_outputs_and_not_among_them(world, node):
    await place(world, "train")
    script = f"echo 1 > loss; {SAVE}"
    _, end = await ran(node, "train", *shell(script), outputs=("loss",))
    objects = world.gateway.keeper.of("vision")
    (file,) = objects.tree(end.checkpoint).files
    assert (file.path, end.outputs_files) == ("deep/step", 1)


async def test_what_cannot_be_kept_is_said_and_changes_no_exit_code(world, node, monkeypatch):
    await place(world, "train")
    script = f"mkfifo $HEADRACE_CHECKPOINT_DIR/pipe; {SAVE}"
    _, end = await ran(node, "train", *shell(script))
    assert (end.exit_code, end.checkpoint) == (3, "")
    assert "checkpoint cannot be kept: pipe is neither" in end.message


async def test_a_job_that_is_cancelled_sends_nothing_for_a_next_attempt(world, node):
    await place(world, "train")
    script = 'echo 1 > "$HEADRACE_CHECKPOINT_DIR/step"; echo on; sleep 1000'
    key = await node.placement.want("train", *shell(script))
    await node.placement.started(key)
    await node.placement.stop(key)
    assert (await node.placement.ended(key)).checkpoint == ""
