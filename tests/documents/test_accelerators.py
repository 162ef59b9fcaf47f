"""The GPU grammar."""

import pytest

from headrace.documents.accelerators import accelerators
from headrace.documents.refusing import DocumentError
from headrace.events.asked import Accelerator

GB = 10**9


def kind(milli=1000, model="", low=0, high=0, profile=""):
    return Accelerator(
        milli=milli, model=model, memory_bytes_min=low, memory_bytes_max=high, profile=profile
    )


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (2, kind(2000)),
        ("2", kind(2000)),
        (0.5, kind(500)),
        ("0.5", kind(500)),
        ("H100:8", kind(8000, "H100")),
        ("H100", kind(1000, "H100")),
        ("A100:80GB:2", kind(2000, "A100", 80 * GB)),
        ("2:A100:80GB", kind(2000, "A100", 80 * GB)),
        ("24GB..80GB:1", kind(1000, "", 24 * GB, 80 * GB)),
        ("24GB", kind(1000, "", 24 * GB)),
        ("..80GB", kind(1000, "", 0, 80 * GB)),
        ("24GB..", kind(1000, "", 24 * GB)),
        ("A100:0.25", kind(250, "A100")),
        ("H100-80GB:2", kind(2000, "H100-80GB")),
        ("16GiB:1", kind(1000, "", 16 * 2**30)),
        ("1g.10gb", kind(1000, profile="1g.10gb")),
        ("3G.40GB:2", kind(2000, profile="3g.40gb")),
        ("H100:1g.10gb+me:1", kind(1000, "H100", profile="1g.10gb+me")),
    ],
)
def test_the_grammar_is_understood(value, expected):
    assert accelerators("resources.gpus", value) == (expected,)


@pytest.mark.parametrize("value", [0, "0", "H100:0"])
def test_no_gpu_is_no_accelerator(value):
    assert accelerators("resources.gpus", value) == ()


def test_a_list_keeps_its_order_of_preference():
    found = accelerators("resources.gpus", ["H100:8", "A100:80GB:8", 4])
    assert [(k.model, k.milli) for k in found] == [("H100", 8000), ("A100", 8000), ("", 4000)]


@pytest.mark.parametrize(
    ("value", "field", "rule"),
    [
        ("1g.10gb:0.5", "resources.gpus", "shares cannot be cut from MIG slices"),
        ("1g.10gb:1.5", "resources.gpus", "more than one GPU is a number of whole GPUs"),
        ("1g.10gb:2g.20gb", "resources.gpus", "has two parts that are a profile"),
        ("1g.10gb:80GB", "resources.gpus", "a MIG profile says its memory itself"),
        (1.5, "resources.gpus", "more than one GPU is a number of whole GPUs"),
        ("H100:2..8", "resources.gpus", "not yet"),
        ("2.5", "resources.gpus", "more than one GPU is a number of whole GPUs"),
        ("0.0001", "resources.gpus", "is finer than thousandths"),
        (65, "resources.gpus", "a node may be asked for at most 64 GPUs"),
        ("H100:A100", "resources.gpus", "has two parts that are a model"),
        ("80GB..24GB", "resources.gpus", "the range ends before it begins"),
        ("", "resources.gpus", "is not an amount of GPUs"),
        ("two", "resources.gpus", "is not an amount of GPUs: numbers are written in digits"),
        ("H100:Two", "resources.gpus", "is not an amount of GPUs: numbers are written in digits"),
        ("H100:", "resources.gpus", "is not an amount of GPUs"),
        ("H100:-1", "resources.gpus", "is not an amount of GPUs"),
        ("-1", "resources.gpus", "is not an amount of GPUs"),
        ([], "resources.gpus", "a list of preferences has 1 to 8 entries"),
        (["H100:8", 0], "resources.gpus[1]", "no GPU is not a preference"),
        ([["H100"]], "resources.gpus[0]", "is not an amount of GPUs"),
    ],
)
def test_what_is_no_amount_of_gpus_is_refused_by_name(value, field, rule):
    with pytest.raises(DocumentError) as refused:
        accelerators("resources.gpus", value)
    assert (refused.value.refusal.field, refused.value.refusal.rule) == (field, rule)
