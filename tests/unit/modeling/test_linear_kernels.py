import pytest
import torch
from torch import Tensor, nn

from outrider.modeling.half_linear import HalfLinear, is_half_exact
from outrider.modeling.linear_kernels import pack_linears
from outrider.modeling.packed_linear import PackedLinear


def half_exact(linear: nn.Linear) -> nn.Linear:
    """The layer with weights that float16 holds exactly."""
    linear.weight.data = linear.weight.data.half().float()
    return linear


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kernel", [PackedLinear, HalfLinear])
def test_a_replaced_layer_computes_the_same(bias, kernel):
    linear = half_exact(nn.Linear(24, 40, bias=bias))
    replaced = kernel(linear)
    for shape in ((1, 24), (3, 24), (1, 7, 24)):
        rows = torch.randn(shape)
        torch.testing.assert_close(replaced(rows), linear(rows), atol=1e-5, rtol=1e-5)


def test_float32_sums_are_not_cut_to_float16():
    """A float16 sum would be off by a thousandth."""
    linear = half_exact(nn.Linear(512, 8, bias=False))
    rows = torch.randn(5, 512)
    exact = rows.double() @ linear.weight.double().T
    assert (HalfLinear(linear)(rows).double() - exact).abs().max() < 5e-6


def test_packed_rows_have_the_same_bits_whatever_runs_beside_them():
    packed = PackedLinear(nn.Linear(96, 200))
    rows = torch.randn(33, 96)
    before = torch.get_num_threads()
    together: dict[int, Tensor] = {}
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            together[threads] = packed(rows)
            for count in (1, 2, 3, 8, 17):
                assert torch.equal(packed(rows[:count]), together[threads][:count])
        assert torch.equal(together[1], together[2])
    finally:
        torch.set_num_threads(before)


def test_no_weight_is_changed():
    """bfloat16 checkpoints fit into float16 but for tiny weights; others keep float32."""
    assert is_half_exact(torch.tensor([0.0, 1.5, -0.0078125, 6.1e-5]).bfloat16().float())
    assert not is_half_exact(torch.tensor([1.0, 1e-9]).bfloat16().float())
    assert not is_half_exact(torch.tensor([70000.0]))
    assert not is_half_exact(torch.tensor([0.1]))


def test_each_layer_gets_the_kernel_that_fits_and_subclasses_are_left_alone():
    class Special(nn.Linear):
        pass

    model = nn.Sequential(
        half_exact(nn.Linear(8, 8)), Special(8, 8), nn.Sequential(nn.Linear(8, 4))
    )
    with torch.inference_mode():
        before = model(torch.ones(1, 8))
        assert pack_linears(model) == 2
        torch.testing.assert_close(model(torch.ones(1, 8)), before, atol=1e-5, rtol=1e-5)
    assert [type(layer) for layer in model][:2] == [HalfLinear, Special]
    assert type(model[2].get_submodule("0")) is PackedLinear


def test_a_layer_with_a_forward_or_a_weight_of_its_own_is_left_alone():
    """Tensor parallel and device hooks set the one, torchao the other."""

    class Packed(nn.Parameter):
        pass

    hooked, packed = nn.Linear(8, 8), nn.Linear(8, 8)
    vars(hooked)["forward"] = lambda rows: rows
    packed.weight = Packed(packed.weight.data)
    model = nn.Sequential(hooked, packed)
    assert pack_linears(model) == 0
    assert list(model) == [hooked, packed]
