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


def test_subclasses_are_left_alone():
    class Special(nn.Linear):
        pass

    model = nn.Sequential(nn.Linear(8, 8), Special(8, 8), nn.Sequential(nn.Linear(8, 4)))
    with torch.inference_mode():
        before = model(torch.ones(1, 8))
        assert pack_linears(model) == 2
        torch.testing.assert_close(model(torch.ones(1, 8)), before, atol=1e-5, rtol=1e-5)
    assert type(model[1]) is Special
