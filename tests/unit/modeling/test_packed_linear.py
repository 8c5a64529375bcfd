import torch
from torch import nn

from outrider.modeling.packed_linear import PackedLinear, pack_linears


def test_a_packed_layer_computes_the_same():
    for bias in (True, False):
        linear = nn.Linear(24, 40, bias=bias)
        packed = PackedLinear(linear)
        for shape in ((1, 24), (3, 24), (1, 7, 24)):
            rows = torch.randn(shape)
            torch.testing.assert_close(packed(rows), linear(rows), atol=1e-5, rtol=1e-5)
        assert torch.equal(packed.weight, linear.weight)


def test_a_row_has_the_same_bits_whatever_runs_beside_it():
    packed = PackedLinear(nn.Linear(96, 200))
    rows = torch.randn(33, 96)
    before = torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            together = packed(rows)
            for count in (1, 2, 3, 8, 17):
                assert torch.equal(packed(rows[:count]), together[:count])
            if threads == 1:
                alone = together
        assert torch.equal(alone, together)
    finally:
        torch.set_num_threads(before)


def test_subclasses_are_left_alone():
    class Special(nn.Linear):
        pass

    model = nn.Sequential(nn.Linear(8, 8), Special(8, 8), nn.Sequential(nn.Linear(8, 4)))
    with torch.inference_mode():
        before = model(torch.ones(1, 8))
        assert pack_linears(model) == 2
        torch.testing.assert_close(model(torch.ones(1, 8)), before, atol=1e-5, rtol=1e-5)
    assert type(model[1]) is Special
