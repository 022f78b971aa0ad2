"""Bits, packed bytes, words and signs against plain NumPy and each other."""

import re

import numpy as np
import pytest
from cases import each
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from skhash.codes import (
    MAX_BITS,
    bits_to_signs,
    check_bits,
    check_packed,
    from_hex,
    hamming_distances,
    pack_bits,
    packed_to_words,
    packed_width,
    signs_to_bits,
    spherical_hamming_distances,
    to_hex,
    unpack_bits,
)
from skhash.utils.chunks import row_chunks

shapes = array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=80)
zeros_and_ones = arrays(np.uint8, shapes, elements=st.integers(0, 1))


def packed_by_hand(bits):
    """Bit k is worth 2 ** (7 - k % 8) in byte k // 8."""
    packed = np.zeros((bits.shape[0], packed_width(bits.shape[1])), dtype=int)
    for k in range(bits.shape[1]):
        packed[:, k // 8] += bits[:, k].astype(int) << (7 - k % 8)
    return packed


@given(zeros_and_ones)
def test_pack_and_unpack_are_inverses(bits):
    packed = pack_bits(bits)
    assert packed.dtype == np.uint8
    np.testing.assert_array_equal(packed, packed_by_hand(bits))
    unpacked = unpack_bits(packed, bits.shape[1])
    assert unpacked.dtype == np.uint8
    np.testing.assert_array_equal(unpacked, bits)
    np.testing.assert_array_equal(pack_bits(unpacked), packed)


@each("n_bits", [1, 8, 13])
def test_no_codes_at_all(n_bits):
    packed = pack_bits(np.zeros((0, n_bits)))
    assert packed.shape == (0, packed_width(n_bits))
    assert unpack_bits(packed, n_bits).shape == (0, n_bits)
    assert bits_to_signs(np.zeros((0, n_bits))).shape == (0, n_bits)
    assert hamming_distances(packed, packed).shape == (0, 0)


def test_what_is_fine_is_not_copied():
    bits = np.zeros((3, 8), dtype=np.uint8)
    assert check_bits(bits) is bits
    assert check_packed(bits) is bits
    assert np.shares_memory(packed_to_words(bits), bits)


@each("value", [2, -1, 255, 0.5, np.nan, np.inf])
def test_bits_of_another_value_are_named(value):
    bits = np.zeros((4, 3), dtype=np.asarray(value).dtype)
    bits[2, 1] = value
    for function in (check_bits, pack_bits, bits_to_signs):
        message = f"Codes must hold 0 and 1 only, got {value}"
        with pytest.raises(ValueError, match=re.escape(message)):
            function(bits)


def test_a_wrong_bit_is_found_in_every_chunk(monkeypatch):
    monkeypatch.setattr(row_chunks, "__defaults__", (40,))
    bits = np.zeros((30, 10), dtype=np.uint8)
    check_bits(bits)
    for row in range(30):
        wrong = bits.copy()
        wrong[row, row % 10] = 7
        with pytest.raises(ValueError, match="got 7"):
            check_bits(wrong)


@each("shape", [(), (5,), (2, 3, 4), (5, 0)])
def test_codes_of_another_shape_are_refused(shape):
    for check in (check_bits, check_packed):
        with pytest.raises(ValueError, match=re.escape(f"{shape}")):
            check(np.zeros(shape, dtype=np.uint8))


def test_codes_of_another_dtype_are_refused():
    codes = np.zeros((2, 8), dtype=int)
    for dtype in ("U1", "complex64", "object", "M8[s]"):
        with pytest.raises(ValueError, match="numbers 0 and 1, got dtype"):
            check_bits(codes.astype(dtype))
    for dtype in ("bool", "int8", "float32", "object"):
        with pytest.raises(ValueError, match=f"uint8, got {dtype}"):
            check_packed(codes.astype(dtype))


def test_the_way_out_for_packed_words_is_one():
    words = np.zeros((3, 2), dtype=np.uint64)
    with pytest.raises(ValueError, match=r"codes\.view\(np\.uint8\)"):
        check_packed(words)
    check_packed(words.view(np.uint8))


@each("n_bits, n_bytes", [(8, 2), (9, 1), (0, 1), (64, 7)])
def test_packed_codes_of_another_width_are_refused(n_bits, n_bytes):
    packed = np.zeros((3, n_bytes), dtype=np.uint8)
    message = f"{n_bits} bits need {packed_width(n_bits)} bytes, got {n_bytes}"
    with pytest.raises(ValueError, match=message):
        unpack_bits(packed, n_bits)


@each("n_bits", [1, 5, 7, 9, 15])
def test_set_padding_bits_are_refused(n_bits):
    padding = 8 * packed_width(n_bits) - n_bits
    packed = pack_bits(np.ones((3, n_bits)))
    for place in range(padding):
        wrong = packed.copy()
        wrong[1, -1] |= 1 << place
        with pytest.raises(ValueError, match=rf"last {padding} bit\(s\)"):
            unpack_bits(wrong, n_bits)


@given(zeros_and_ones, st.sampled_from([np.int8, np.float32, np.float64]))
def test_signs_and_bits_are_inverses(bits, dtype):
    signs = bits_to_signs(bits, dtype)
    assert signs.dtype == dtype
    np.testing.assert_array_equal(signs, np.where(bits == 1, 1, -1))
    back = signs_to_bits(signs)
    assert back.dtype == np.uint8
    np.testing.assert_array_equal(back, bits)


@each("value", [0, 2, -3, 0.5, np.nan, np.inf])
def test_signs_of_another_value_are_named(value):
    signs = np.ones((2, 3), dtype=np.asarray(value).dtype)
    signs[1, 2] = value
    message = f"Signs must be -1 or +1, got {value}"
    with pytest.raises(ValueError, match=re.escape(message)):
        signs_to_bits(signs)


@given(arrays(np.uint8, array_shapes(min_dims=2, max_dims=2)), st.data())
def test_hexadecimal_is_that_of_python(packed, data):
    expected = ["".join(f"{byte:02x}" for byte in row) for row in packed]
    strings = to_hex(packed)
    assert strings.tolist() == expected
    forms = str, str.upper, "0x{}".format, "0X{}".format
    written = [data.draw(st.sampled_from(forms))(one) for one in expected]
    for given_strings in (strings, written, np.array(written, dtype=object)):
        read = from_hex(given_strings)
        assert read.dtype == np.uint8 and read.flags.writeable
        np.testing.assert_array_equal(read, packed)
    odd = from_hex([one[:-1] for one in expected])  # the last four bits are padding
    np.testing.assert_array_equal(odd[:, :-1], packed[:, :-1])
    np.testing.assert_array_equal(odd[:, -1], packed[:, -1] & 0xF0)


def test_no_strings_are_no_codes():
    assert from_hex([]).shape == (0, 1)
    assert to_hex(np.zeros((0, 3), dtype=np.uint8)).dtype == "<U6"


@each(
    "strings, message",
    [
        (["ab", "abc"], "2 hexadecimal digits, .* got 'abc' at position 1"),
        (["0xab", "abcd"], "2 hexadecimal digits, .* got 'abcd' at position 1"),
        (["ab", "0x", "zz"], "got '0x' at position 1"),
        (["ab", "cg"], "got 'cg' at position 1"),
        (["ab", "a "], "got 'a ' at position 1"),
        (["abcd", "a  d"], "got 'a  d' at position 1"),
        (["ab", "x0xab"], "got 'x0xab' at position 1"),
        (["a" * 2, "\uff11\uff12"], "at position 1"),
        (["", ""], "got '' at position 0"),
        ([b"ab"], "got b'ab' at position 0"),
        ([12, "ab"], "got 12 at position 0"),
        ("ab", r"shape \(\)"),
        ([["ab"]], r"shape \(1, 1\)"),
    ],
)
def test_strings_that_are_not_hexadecimal_are_named(strings, message):
    with pytest.raises(ValueError, match=message):
        from_hex(strings)


@given(zeros_and_ones)
def test_words_hold_the_same_bits(bits):
    packed = pack_bits(bits)
    words = packed_to_words(packed)
    assert words.dtype == np.uint64
    assert words.shape == (len(bits), -(-bits.shape[1] // 64))
    as_bytes = words.view(np.uint8)
    np.testing.assert_array_equal(as_bytes[:, : packed.shape[1]], packed)
    assert not as_bytes[:, packed.shape[1] :].any()


@given(st.data())
def test_hamming_distances_count_the_bits_that_differ(data):
    n_bits = data.draw(st.integers(1, 140))
    n_a, n_b = data.draw(st.tuples(st.integers(0, 6), st.integers(0, 6)))
    seed = data.draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 2, (n_a, n_bits)), rng.integers(0, 2, (n_b, n_bits))
    distances = hamming_distances(pack_bits(a), pack_bits(b))
    assert distances.dtype == np.int32
    np.testing.assert_array_equal(distances, (a[:, None] != b[None]).sum(axis=2))


@each("n_bits", [3, 70])
@each("share", [0.1, 0.5])
def test_spherical_hamming_distances_divide_by_the_ones_in_common(n_bits, share):
    rng = np.random.default_rng(0)
    a, b = (rng.random((n, n_bits)) < share for n in (20, 30))
    distances = spherical_hamming_distances(pack_bits(a), pack_bits(b))
    differing = (a[:, None] != b).sum(axis=2)
    common = (a[:, None] & b).sum(axis=2)
    defined = common > 0
    np.testing.assert_array_equal(
        distances[defined], differing[defined] / common[defined]
    )
    # Without common ones: finite, 0 for equal codes, further than with a common one.
    np.testing.assert_allclose(distances[~defined], 10 * differing[~defined])
    assert defined.any()


@pytest.mark.parametrize("function", [hamming_distances, spherical_hamming_distances])
def test_hamming_distances_in_chunks(function, monkeypatch):
    rng = np.random.default_rng(0)
    a, b = (rng.integers(0, 256, (n, 11), dtype=np.uint8) for n in (40, 30))
    whole = function(a, b)
    monkeypatch.setattr(row_chunks, "__defaults__", (1000,))
    np.testing.assert_array_equal(function(a, b), whole)


@each("function", [hamming_distances, spherical_hamming_distances])
def test_hamming_distances_of_different_widths_are_refused(function):
    a, b = np.zeros((1, 2), dtype=np.uint8), np.zeros((1, 3), dtype=np.uint8)
    with pytest.raises(ValueError, match="2 bytes and of 3 bytes"):
        function(a, b)


@each("dtype", [np.uint8, bool, str, object, complex])
def test_signs_of_types_without_them_are_refused(dtype):
    with pytest.raises(ValueError, match=f"able to hold -1, got {np.dtype(dtype)}"):
        bits_to_signs([[0, 1]], dtype)


@each("number", [np.uint8, np.int8, np.int64, int])
def test_widths_in_numbers_of_few_bits(number):
    bits = np.ones((2, 12), dtype=np.uint8)
    assert packed_width(number(12)) == 2
    np.testing.assert_array_equal(unpack_bits(pack_bits(bits), number(12)), bits)


def test_codes_that_are_too_long_for_the_kernels():
    packed = np.zeros((1, MAX_BITS // 8 + 1), dtype=np.uint8)
    assert packed_to_words(packed[:, 1:]).shape == (1, MAX_BITS // 64)
    with pytest.raises(ValueError, match=f"too long; the maximum is {MAX_BITS}"):
        packed_to_words(packed)
