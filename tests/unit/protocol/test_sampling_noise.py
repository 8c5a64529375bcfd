import numpy as np
import pytest

from outrider.protocol.sampling_noise import gumbel, mix64, position_key, uniform

TOKENS = np.arange(50_000)


def test_the_hash_is_splitmix64():
    """The first outputs of SplitMix64 seeded with 0, as its author published them."""
    gamma = 0x9E3779B97F4A7C15
    states = [(gamma * step) % 2**64 for step in (1, 2, 3)]
    published = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert [mix64(state) for state in states] == published


def test_uniforms_are_inside_the_open_interval_and_even():
    values = uniform(position_key(1, 2), TOKENS)
    assert values.min() > 0.0
    assert values.max() < 1.0
    # Mean of n uniforms: standard deviation 0.29 / sqrt(n); five of them.
    assert abs(values.mean() - 0.5) < 5 * 0.2887 / np.sqrt(len(values))
    counts, _ = np.histogram(values, bins=100, range=(0, 1))
    chi_square = ((counts - 500) ** 2 / 500).sum()
    assert chi_square < 160  # 99 degrees of freedom: exceeded by chance once in 10,000


def test_gumbel_moments():
    noise = gumbel(3, 4, TOKENS)
    assert np.isfinite(noise).all()
    assert abs(noise.mean() - np.euler_gamma) < 5 * 1.2825 / np.sqrt(len(noise))
    assert abs(noise.std() - np.pi / np.sqrt(6)) < 0.05


@pytest.mark.parametrize(
    ("one", "other"),
    [((0, 1), (1, 0)), ((5, 5), (5, 6)), ((5, 5), (6, 5)), ((2**64 - 1, 0), (0, 0))],
)
def test_seed_and_position_do_not_alias(one: tuple[int, int], other: tuple[int, int]):
    """`seed + position` would give the first pair the same numbers."""
    first, second = gumbel(*one, TOKENS), gumbel(*other, TOKENS)
    assert not np.array_equal(first, second)
    assert abs(np.corrcoef(first, second)[0, 1]) < 5 / np.sqrt(len(TOKENS))


def test_neighbouring_tokens_are_independent():
    noise = gumbel(9, 9, TOKENS)
    assert abs(np.corrcoef(noise[:-1], noise[1:])[0, 1]) < 5 / np.sqrt(len(TOKENS))


def test_the_numbers_never_change():
    """A stream that is resumed by a newer version must get the noise of the older one."""
    golden = gumbel(42, 7, np.array([0, 1, 49151]))
    np.testing.assert_allclose(golden, GOLDEN, rtol=1e-14)


GOLDEN = [0.4948317677778312, -0.8489733747148287, 1.1809346307372888]
